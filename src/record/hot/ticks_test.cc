#include "record/hot/ticks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace plimsoll::record {
namespace {

std::int64_t wall_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

class EachSource : public testing::TestWithParam<TickSource> {
 protected:
  void SetUp() override {
    if (GetParam() == TickSource::kTsc && best_tick_source() != TickSource::kTsc)
      GTEST_SKIP() << "The time-stamp counter does not count steadily here.";
  }
};

TEST_P(EachSource, follows_the_wall_clock) {
  TickClock clock(GetParam());
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    clock.calibrate();
    const std::int64_t before = wall_ns();
    const std::uint64_t ticks = read_ticks(GetParam());
    const std::int64_t after = wall_ns();
    // Between two anchors the interpolation is linear; the wall clock may be slewed meanwhile.
    EXPECT_GT(clock.to_ns(ticks), before - 1'000'000);
    EXPECT_LT(clock.to_ns(ticks), after + 1'000'000);
  }
}

TEST_P(EachSource, never_goes_back) {
  TickClock clock(GetParam());
  std::vector<std::uint64_t> ticks;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 50; ++i) ticks.push_back(read_ticks(GetParam()));
    if (round % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    clock.calibrate();
  }
  std::int64_t last = 0;
  for (const std::uint64_t tick : ticks) {
    EXPECT_GE(clock.to_ns(tick), last);
    last = clock.to_ns(tick);
  }
}

INSTANTIATE_TEST_SUITE_P(Ticks, EachSource, testing::Values(TickSource::kClock, TickSource::kTsc));

}  // namespace
}  // namespace plimsoll::record
