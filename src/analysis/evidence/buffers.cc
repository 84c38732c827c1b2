#include "analysis/evidence/buffers.h"

#include <algorithm>
#include <vector>

namespace plimsoll::analysis::evidence {

bool is_bounded_buffer(std::span<const Entry> entries) {
  if (entries.empty()) return false;
  const std::uint32_t last_birth = entries.back().born;
  // What is freed after the last addition, such as at the program's end, shows no order.
  std::vector<std::uint32_t> frees;
  for (const Entry& entry : entries) {
    if (entry.died < last_birth) frees.push_back(entry.died);
  }
  if (frees.size() < kFewest) return false;
  std::ranges::sort(frees);
  // The oldest are freed first: no entry outlives a younger one. Entries freed between the same two
  // additions may be parts of one, in any order.
  const auto additions_before = [&](std::uint32_t event) {
    return std::ranges::lower_bound(entries, event, {}, &Entry::born) - entries.begin();
  };
  const auto outlives = [&](const Entry& older, const Entry& younger) {
    return additions_before(older.died) > additions_before(younger.died);
  };
  if (std::ranges::adjacent_find(entries, outlives) != entries.end()) return false;
  // A list that is cleared falls below half of its length.
  std::size_t born = 0, most = 0, fewest = entries.size();
  for (std::size_t freed = 0; freed < frees.size(); ++freed) {
    while (born < entries.size() && entries[born].born < frees[freed]) ++born;
    most = std::max(most, born - freed);
    fewest = std::min(fewest, born - freed - 1);
  }
  most = std::max(most, entries.size() - frees.size());
  return fewest + 1 >= most - most / 2;
}

}  // namespace plimsoll::analysis::evidence
