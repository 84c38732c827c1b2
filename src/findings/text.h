// Number formats and phrases that all findings share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "report/tables.h"

namespace plimsoll::findings {

using base::bytes_text;
std::string rate_text(double bytes_per_step);  // "1.5 MiB a step"
using base::counted;

// The lines or places that one sentence, or one list of sentences, names.
inline constexpr std::size_t kNamed = 3;

// "a.py:1 (f) 2.0 GiB (40.0%), b.py:2 (g) 1.0 GiB (20.0%)": the first few.
std::string holders_text(std::span<const report::GroupRow> rows);

// False for the labels of stacks without a line: "[no stack recorded]".
bool is_named(const std::string& line);

// For advice: if a package makes the allocations, changing the calling line does not change them.
bool is_mostly_in_packages(const report::SiteRow& site);

inline std::uint64_t not_negative(std::int64_t bytes) {
  return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

bool is_at_least(std::uint64_t part, double share, std::uint64_t whole);

}  // namespace plimsoll::findings
