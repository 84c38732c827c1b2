// Number formats and phrases that all findings share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/units.h"
#include "report/tables.h"

namespace plimsoll::findings {

using base::bytes_text;
using base::counted;

// The lines or places that one sentence, or one list of sentences, names.
inline constexpr std::size_t kNamed = 3;

inline std::string rate_text(double bytes_per_step) {
  return bytes_text(bytes_per_step) + " a step";
}

inline std::string percent_text(std::uint64_t part, std::uint64_t whole) {
  return base::format_percent(static_cast<double>(part) / static_cast<double>(whole));
}

// The first few of the texts.
std::string joined(std::span<const std::string> texts, std::string_view separator = ", ");

// "a.py:1 (f) 2.0 GiB (40.0%), b.py:2 (g) 1.0 GiB (20.0%)": the first few.
std::string holders_text(std::span<const report::GroupRow> rows);

// False for the labels of stacks without a line: "[no stack recorded]".
inline bool is_named(const std::string& line) { return !line.empty() && line.front() != '['; }

// For advice: if a package makes the allocations, changing the calling line does not change them.
inline bool is_mostly_in_packages(const report::SiteRow& site) {
  return site.in_packages > site.allocations / 2;
}

inline std::uint64_t not_negative(std::int64_t bytes) {
  return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

// 0 if b is larger, as figures that are rounded or of different points in time may be.
inline std::uint64_t minus_or_zero(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

inline bool is_at_least(std::uint64_t part, double share, std::uint64_t whole) {
  return static_cast<double>(part) >= share * static_cast<double>(whole);
}

// Pairs, or the entries of a map, with the largest value first.
template <typename Pairs>
auto by_value(const Pairs& pairs) {
  using Pair = typename Pairs::value_type;
  std::vector<std::pair<std::remove_const_t<typename Pair::first_type>, typename Pair::second_type>>
      entries(pairs.begin(), pairs.end());
  std::ranges::stable_sort(entries, std::ranges::greater{},
                           [](const auto& each) { return each.second; });
  return entries;
}

// The entry with the largest value; of equal ones the first. Empty if there is none.
template <typename Map>
std::pair<typename Map::key_type, typename Map::mapped_type> largest(const Map& map) {
  const auto most = std::ranges::max_element(map, {}, [](const auto& each) { return each.second; });
  if (most == map.end()) return {};
  return *most;
}

}  // namespace plimsoll::findings
