// Growth by survivors: which allocations of a site are still live at the end, and in which steps
// they were made. What is replaced at every step leaves no survivor, whatever its size, so inputs
// that get longer do not look like a leak.
//
// T steps; the first quarter is warm-up; an allocation of at least T/8 steps has come of age. A
// site grows if
//
//   1. at least 3 steps between warm-up and coming of age have left survivors;
//   2. survivors come from each third of these steps, and at least 12 % of them from the first and
//      from the last;
//   3. the number of live allocations of age never falls by more than 20 % of its growth: that of
//      a pool that fills and empties does;
//   4. the growth goes on: at least 25 % of it in the later half and, of 8 steps or more, 10 % in
//      the last fifth. A cache or window that is full has stopped growing;
//   5. of the allocations of the first step, or from before it, fewer than half as many have gone
//      since as newer ones have stayed. A queue that was filled then exchanges one for one.
//
// The thresholds were chosen on simulated leaks, windows, caches, queues and random lifetimes;
// growth_rule_test.cc simulates them again. The report of a recording and the alerts of a running
// program use this one rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace plimsoll::base {

// With fewer steps nothing can be said.
inline constexpr std::size_t kFewestGrowthSteps = 6;

// Slower growth is no finding: in ten thousand steps this is 640 MiB. A list of scalar losses
// (512 B a step) is far below.
inline constexpr double kLeastGrowthPerStep = 64.0 * 1024;

// How steps are divided, for `steps` of them.
struct Ages {
  std::size_t warm_up;  // births in the steps before it do not count
  std::size_t of_age;   // steps after its birth
};
Ages ages_of(std::size_t steps);

// One site.
struct SiteSeries {
  std::span<const std::int64_t> born_counts;  // by step of birth: allocations live at the last end
  std::span<const std::int64_t> born_bytes;   // their bytes
  // At the end of each step: live allocations of age that were made after the first step.
  std::span<const std::int64_t> aged_counts;
  // Allocations of the first step, or from before it, that went after the warm-up.
  std::int64_t retired = 0;
};

struct Growth {
  double bytes_per_step = 0;
  std::int64_t grown_bytes = 0;    // live at the end, of what each step left behind
  std::uint64_t survivors = 0;     // allocations between warm-up and coming of age
  std::size_t compared_steps = 0;  // between warm-up and coming of age
  std::size_t birth_steps = 0;     // of these: that have left survivors
  bool is_in_each_step = false;    // all of them have
  bool is_certain = false;         // of few steps only growth in each step is
};

// None: the site does not grow.
std::optional<Growth> growth_of(const SiteSeries& site);

// 95 % of resamplings of the steps have a rate between these. The same for the same values on every
// machine.
struct RateInterval {
  double low_bytes_per_step = 0;
  double high_bytes_per_step = 0;
};
RateInterval interval_of(const SiteSeries& site);  // one that grows

}  // namespace plimsoll::base
