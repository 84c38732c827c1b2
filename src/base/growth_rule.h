// Detects growth by survivors: which allocations of a site are still live at the end, and in which
// steps they were made. Memory that every step replaces leaves no survivors, whatever its size, so
// inputs that get longer do not look like a leak.
//
// Of T steps, the first quarter is warm-up. An allocation that is at least T/8 steps old has come
// of age. A site grows if
//
//   1. at least 3 steps between warm-up and coming of age have left survivors;
//   2. survivors come from each third of these steps, and at least 12 % of them from the first and
//      from the last;
//   3. the number of live allocations of age never falls by more than 20 % of its growth, as it
//      does for a pool that fills and empties;
//   4. the growth continues: at least 25 % of it is in the later half and, with 8 steps or more,
//      10 % in the last fifth. A cache or window that is full has stopped growing. If the
//      program has ended and nothing of age died in the last T/8 steps, 2 and 4 may also hold with
//      the survivors of these steps, so that random bursts are found;
//   5. old allocations stay: of those made in the first step or before it, the number that died
//      after the warm-up is less than half the number of newer survivors. A queue that was filled
//      at the start frees an old entry for each new one.
//
// The thresholds were chosen on simulated leaks, windows, caches, queues and random lifetimes;
// growth_rule_test.cc repeats the simulation. Reports of recordings and alerts of running programs
// use this same rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace plimsoll::base {

// With fewer steps nothing can be concluded.
inline constexpr std::size_t kFewestGrowthSteps = 6;

// With fewer samples of a run, neither a monitor nor its log or `plimsoll analyze` judges growth. A
// queue or a cache that is filled within 16 samples has stopped growing by then.
inline constexpr std::size_t kFewestGrowthSamples = 20;

// Slower growth is not reported: over ten thousand steps this is 640 MiB. A list of scalar losses
// (512 B a step) is far below it.
inline constexpr double kLeastGrowthPerStep = 64.0 * 1024;

// What a tensor needs of host memory in addition to its own: the tensor object, its storage and its
// block. Measured with torch 2.13: 740 bytes, and 700 more if a graph retains it.
inline constexpr double kTensorObjectBytes = 740;
// Tensors that grow in number, but hardly in bytes, are reported from this many bytes of objects.
inline constexpr double kLeastObjectBytes = 64.0 * 1024 * 1024;

// How `steps` steps are divided.
struct Ages {
  std::size_t warm_up;  // earlier steps are warm-up: allocations made in them do not count
  std::size_t of_age;   // age, in steps, from which an allocation counts as of age
};
Ages ages_of(std::size_t steps);

// The data of one site.
struct SiteSeries {
  std::span<const std::int64_t> born_counts;  // by step of birth: allocations live at the last end
  std::span<const std::int64_t> born_bytes;   // bytes of these
  // At the end of each step: live allocations of age that were made after the first step.
  std::span<const std::int64_t> aged_counts;
  // Allocations of the first step, or from before it, that died after the warm-up.
  std::int64_t retired = 0;
  // Whether later steps can be judged with these. Otherwise the last T/8 steps are looked at, too.
  bool continues = false;
};

struct Growth {
  double bytes_per_step = 0;
  std::int64_t grown_bytes = 0;    // bytes left behind by all steps and live at the end
  std::uint64_t survivors = 0;     // surviving allocations made between warm-up and coming of age
  std::size_t compared_steps = 0;  // number of steps between warm-up and coming of age
  std::size_t birth_steps = 0;     // how many of these left survivors
  bool is_in_each_step = false;    // whether all of them did
  bool is_certain = false;         // with few steps, only growth in every step is certain
};

// nullopt if the site does not grow.
std::optional<Growth> growth_of(const SiteSeries& site);

// 95 % of resamplings of the steps have a growth rate in this range. Deterministic: the same values
// give the same result on every machine.
struct RateInterval {
  double low_bytes_per_step = 0;
  double high_bytes_per_step = 0;
};
RateInterval interval_of(const SiteSeries& site);  // `site` must grow

}  // namespace plimsoll::base
