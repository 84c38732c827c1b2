#include "record/ledger/step_floors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace plimsoll::record {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kMiB = 1u << 20;

// The steps at which memory is found to grow.
std::vector<std::uint64_t> found(const std::function<std::uint64_t(std::uint64_t step)>& live) {
  StepFloors floors;
  std::vector<std::uint64_t> steps;
  for (std::uint64_t step = 1; step <= 300; ++step) {
    if (floors.end_step(live(step))) steps.push_back(step);
  }
  return steps;
}

TEST(StepFloors, find_a_leak_from_step_16_on_at_each_power_of_two) {
  EXPECT_THAT(found([](auto step) { return 100 * kMiB + step * kMiB; }),
              ElementsAre(16, 32, 64, 128, 256));
  EXPECT_THAT(found([](auto step) { return 100 * kMiB + step * (64u << 10); }),
              ElementsAre(16, 32, 64, 128, 256))
      << "the smallest rate that a report mentions";
}

TEST(StepFloors, find_none_in_memory_that_stays_fluctuates_or_only_warms_up) {
  EXPECT_THAT(found([](auto) { return 100 * kMiB; }), IsEmpty());
  EXPECT_THAT(found([](auto step) { return (100 + step % 7 * 30) * kMiB; }), IsEmpty());
  EXPECT_THAT(found([](auto step) { return std::min<std::uint64_t>(step, 6) * kMiB; }), IsEmpty());
  EXPECT_THAT(found([](auto step) { return 100 * kMiB + step * 1000; }), IsEmpty());
}

TEST(StepFloors, find_a_leak_that_begins_late) {
  EXPECT_THAT(found([](auto step) { return step < 40 ? kMiB : (step - 38) * kMiB; }),
              ElementsAre(256));
}

}  // namespace
}  // namespace plimsoll::record
