// Growth in jumps: an evaluation, a checkpoint or the end of an epoch leaves something behind, and
// the iterations in between nothing. The rule of base/growth_rule.h needs many samples for it.
//
// Births are counted by sample, as in survivors.h; those of the newest samples, which the next ones
// may replace, do not count. Samples in a row that left survivors are one jump. A site grows in
// jumps if
//
//   1. there are at least 3, and they stay: what has died at the age of 2 samples or more is at
//   most
//      a fifth of the survivors;
//   2. they come at equal intervals of at least 4 samples, from the first sample on, and the next
//   one
//      is not overdue. A cache fills at any time, and more and more slowly;
//   3. the smallest is at least half of the largest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace plimsoll::alerts {

struct Stairs {
  std::size_t jumps = 0;
  std::size_t first_sample = 0;  // of the first jump
  std::size_t last_jump = 0;     // the sample in which the last jump began
  std::size_t last_sample = 0;   // of the last jump
  std::int64_t bytes = 0;        // of the survivors of all jumps
  std::int64_t later_bytes = 0;  // without those of the first jump
  std::uint64_t survivors = 0;
};

// Whether a row stands for one sample, or for several in a row, which rounds the intervals.
enum class Samples : std::uint8_t { kEach, kMerged };

// `live_counts[s][b]`: allocations made between the samples b - 1 and b, and live at sample s; b =
// 0 is everything before the first sample. `bytes`: those of the last row. nullopt if the site does
// not grow in jumps.
std::optional<Stairs> stairs_of(std::span<const std::vector<std::uint32_t>> live_counts,
                                std::span<const std::int64_t> bytes, Samples kind);

}  // namespace plimsoll::alerts
