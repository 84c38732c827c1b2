// Number formats and phrases that all findings share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "report/fragmentation.h"
#include "report/tables.h"

namespace plimsoll::findings {

using base::bytes_text;
std::string rate_text(double bytes_per_step);  // "1.5 MiB a step"
using base::counted;

// "a.py:1 (f) 2.0 GiB (40.0%), b.py:2 (g) 1.0 GiB (20.0%)": the first few.
std::string holders_text(std::span<const report::GroupRow> rows);

// Whether each single step is known to leave memory behind. With more than 128 steps, this is known
// only of groups of steps.
bool is_every_step(const report::GrowthRow& row);

// The kind of memory that a line, layer or category that grows at every step retains.
enum class Retained : std::uint8_t {
  kUnknown,
  kTensors,
  kOutputs,           // of forwards, without their graphs
  kMadeWithoutGraph,  // of forwards that are known to build no graph
  kGraphs,
  kModel
};
// Derived from a category; "" means unknown.
Retained retained_in(std::string_view category);
// The next step for a holder. `row`: the holder's row, null if unknown.
std::string free_advice(const std::string& holder, std::int32_t device, Retained retained,
                        const report::GrowthRow* row);
// The category of a device that grows most; empty if none does, or if it is unknown.
std::string_view growing_category(const report::Tables& tables, std::int32_t device);

// One sentence for each of the first few lines that pin memory.
std::vector<std::string> pinning_sentences(std::span<const report::PinningLine> lines);

// "what a.py:1 (f) keeps" for the line that pins most; a generic phrase if it has no name.
std::string what_is_kept(std::span<const report::PinningLine> pinning);

// False for the labels of stacks without a line: "[no stack recorded]".
bool is_named(const std::string& line);

// For advice: if a package makes the allocations, changing the calling line does not change them.
bool is_mostly_in_packages(const report::SiteRow& site);

bool is_at_least(std::uint64_t part, double share, std::uint64_t whole);

}  // namespace plimsoll::findings
