// How findings say numbers: the same words everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/fragmentation.h"
#include "report/tables.h"

namespace plimsoll::analysis::findings {

std::string bytes_text(std::uint64_t bytes);  // "1.5 GiB"
std::string bytes_text(std::int64_t bytes);
std::string rate_text(double bytes_per_step);                    // "1.5 MiB a step"
std::string counted(std::uint64_t count, const char* singular);  // "1 block", "12,345 blocks"

// "a.py:1 (f) 2.0 GiB (40.0%), b.py:2 (g) 1.0 GiB (20.0%)": the first few.
std::string holders_text(std::span<const report::GroupRow> rows);

// What a line, layer or category holds more of at every step.
enum class Retained : std::uint8_t {
  kTensors,
  kOutputs,  // of forwards, without the graphs behind them
  kGraphs,
  kModel
};
// Of a category; empty: unknown.
Retained retained_in(std::string_view category);
// What to do about it. `row`: of the holder, null if it is not known.
std::string free_advice(const std::string& holder, std::int32_t device, Retained retained,
                        const report::GrowthRow* row);
// The category of a device that grows most; empty: none, or not known.
std::string_view growing_category(const report::Tables& tables, std::int32_t device);

// One sentence for each of the first few lines that pin.
std::vector<std::string> pinning_sentences(std::span<const report::PinningLine> lines);

// "what a.py:1 (f) keeps" of the line that pins most; words for it where it has no name.
std::string what_is_kept(std::span<const report::PinningLine> pinning);

// False for the labels of stacks without a line: "[no stack recorded]".
bool is_named(const std::string& line);

// What a package allocates, the line that calls it cannot allocate otherwise.
bool is_mostly_in_packages(const report::SiteRow& site);

bool is_at_least(std::uint64_t part, double share, std::uint64_t whole);

}  // namespace plimsoll::analysis::findings
