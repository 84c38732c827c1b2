// Whether memory grows from step to step: compares the lowest live bytes at the ends of steps in
// spans that double in length. Takes constant memory and time; the report's own test has all steps.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "base/growth_rule.h"

namespace plimsoll::record {

class StepFloors {
 public:
  // A step has ended. Returns whether memory has grown through the last two spans: at step 16 at
  // the earliest, and then at each power of two.
  bool end_step(std::uint64_t live_bytes) {
    floor_ = std::min(floor_, live_bytes);
    if (!std::has_single_bit(++steps_)) return false;
    // A steady leak adds half as many steps as the span has; what only warms up adds less and less.
    const std::uint64_t more = above(floor_, earlier_);
    const std::uint64_t before = above(earlier_, earliest_);
    const auto least = static_cast<std::uint64_t>(base::kLeastGrowthPerStep) * (steps_ / 4);
    const bool grows = steps_ >= kFewestSteps && before > 0 && more >= std::max(before, least);
    earliest_ = earlier_;
    earlier_ = floor_;
    floor_ = std::numeric_limits<std::uint64_t>::max();
    return grows;
  }

 private:
  static constexpr std::uint64_t kFewestSteps = 16;  // the report's test needs 12

  static std::uint64_t above(std::uint64_t bytes, std::uint64_t floor) {
    return bytes > floor ? bytes - floor : 0;
  }

  std::uint64_t steps_ = 0;
  std::uint64_t floor_ = std::numeric_limits<std::uint64_t>::max();  // of the span that runs
  std::uint64_t earlier_ = 0, earliest_ = 0;                         // of the two before it
};

}  // namespace plimsoll::record
