#include "alerts/stairs.h"

#include <algorithm>

#include "base/growth_rule.h"

namespace plimsoll::alerts {
namespace {

constexpr std::size_t kFewestJumps = 3;
constexpr std::size_t kShortestInterval = 4;
constexpr std::size_t kRoundedInterval = 8;  // from which intervals may differ by one sample
constexpr std::size_t kOfAge = 2;            // samples after which memory counts as retained
constexpr std::uint64_t kSurvivorsPerDead = 5;

struct Jump {
  std::size_t first = 0;
  std::size_t last = 0;
  std::int64_t bytes = 0;
};

std::vector<Jump> jumps_in(std::span<const std::int64_t> bytes, std::size_t end) {
  std::vector<Jump> jumps;
  for (std::size_t sample = 1; sample < end; ++sample) {
    if (bytes[sample] == 0) continue;
    if (jumps.empty() || jumps.back().last + 1 < sample) jumps.push_back({.first = sample});
    jumps.back().last = sample;
    jumps.back().bytes += bytes[sample];
  }
  return jumps;
}

bool are_regular(std::span<const Jump> jumps, std::size_t newest, Samples kind) {
  std::size_t shortest = jumps[1].first - jumps[0].first;
  std::size_t longest = shortest;
  for (std::size_t i = 2; i < jumps.size(); ++i) {
    const std::size_t interval = jumps[i].first - jumps[i - 1].first;
    shortest = std::min(shortest, interval);
    longest = std::max(longest, interval);
  }
  const bool is_rounded = kind == Samples::kMerged || shortest >= kRoundedInterval;
  const std::size_t rounding = is_rounded ? 1 : 0;
  if (shortest < kShortestInterval || longest - shortest > rounding) return false;
  if (jumps.front().first > longest) return false;
  // A jump counts only once it is of age.
  const std::size_t due = jumps.back().first + longest + base::ages_of(newest + 1).of_age;
  if (newest > due) return false;
  const auto [smallest, largest] = std::ranges::minmax(jumps, {}, &Jump::bytes);
  return smallest.bytes * 2 >= largest.bytes;
}

bool are_kept(std::span<const std::vector<std::uint32_t>> live_counts, std::uint64_t survivors) {
  const std::vector<std::uint32_t>& now = live_counts.back();
  std::uint64_t dead = 0;
  for (std::size_t birth = 0; birth < now.size(); ++birth) {
    std::uint32_t most = now[birth];
    const std::size_t of_age = birth + kOfAge;
    for (std::size_t sample = of_age; sample < live_counts.size(); ++sample) {
      most = std::max(most, live_counts[sample][birth]);
    }
    dead += most - now[birth];
  }
  return dead * kSurvivorsPerDead <= survivors;
}

}  // namespace

std::optional<Stairs> stairs_of(std::span<const std::vector<std::uint32_t>> live_counts,
                                std::span<const std::int64_t> bytes, Samples kind) {
  const std::size_t samples = live_counts.size();
  const std::size_t end = samples - std::min(samples, base::ages_of(samples).of_age);
  const std::vector<Jump> jumps = jumps_in(bytes, end);
  if (jumps.size() < kFewestJumps || !are_regular(jumps, samples - 1, kind)) return std::nullopt;
  Stairs stairs{.jumps = jumps.size(),
                .first_sample = jumps.front().first,
                .last_jump = jumps.back().first,
                .last_sample = jumps.back().last};
  for (const Jump& jump : jumps) stairs.bytes += jump.bytes;
  stairs.later_bytes = stairs.bytes - jumps.front().bytes;
  for (std::size_t birth = 1; birth < end; ++birth) {
    stairs.survivors += live_counts.back()[birth];
  }
  if (!are_kept(live_counts, stairs.survivors)) return std::nullopt;
  return stairs;
}

}  // namespace plimsoll::alerts
