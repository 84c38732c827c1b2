#include "record/hot/ticks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

namespace plimsoll::record {
namespace {

// A fake machine, whose time passes only when a clock is read or the test advances it.
struct Machine {
  static constexpr std::uint64_t kTicksPerNs = 3;

  static inline std::uint64_t now_ns = 0;
  static inline std::int64_t wall_offset_ns = 0;
  static inline std::uint64_t reading_ns = 0;  // duration of one reading

  static void restart() {
    now_ns = 1'000'000'000;
    wall_offset_ns = 1'700'000'000'000'000'000;
    reading_ns = 10;
  }
  static std::uint64_t monotonic_ns() noexcept { return now_ns += reading_ns; }
  static std::uint64_t ticks() noexcept { return kTicksPerNs * monotonic_ns(); }
  static std::int64_t wall_ns() noexcept {
    return static_cast<std::int64_t>(monotonic_ns()) + wall_offset_ns;
  }
  static TickClock clock_of(TickSource source) {
    const bool is_tsc = source == TickSource::kTsc;
    return TickClock(source, {is_tsc ? ticks : monotonic_ns, monotonic_ns, wall_ns});
  }
  // The counter and the wall clock at one point in time.
  static std::uint64_t ticks_now(TickSource source) {
    return source == TickSource::kTsc ? kTicksPerNs * now_ns : now_ns;
  }
  static std::int64_t wall_now() { return static_cast<std::int64_t>(now_ns) + wall_offset_ns; }
};

class EachFakeSource : public testing::TestWithParam<TickSource> {
 protected:
  EachFakeSource() { Machine::restart(); }
  // The constructor reads the wall clock and the monotonic clock one after the other.
  static constexpr double kErrorNs = 12;
  void expect_accurate(const TickClock& clock, std::int64_t wall_jump_ns = 0) const {
    const std::int64_t ns = clock.to_ns(Machine::ticks_now(GetParam()));
    EXPECT_NEAR(static_cast<double>(ns - (Machine::wall_now() - wall_jump_ns)), 0, kErrorNs);
  }
};

TEST_P(EachFakeSource, follows_the_wall_clock) {
  TickClock clock = Machine::clock_of(GetParam());
  for (int i = 0; i < 200; ++i) {
    Machine::now_ns += 1'000'000;
    clock.calibrate();
    expect_accurate(clock);
    Machine::now_ns += 20'000'000;  // until the next calibration it extrapolates
    expect_accurate(clock);
  }
}

TEST_P(EachFakeSource, ignores_jumps_of_the_wall_clock) {
  constexpr std::int64_t kHourNs = 3'600'000'000'000;
  TickClock clock = Machine::clock_of(GetParam());
  Machine::now_ns += 1'000'000;
  clock.calibrate();
  Machine::wall_offset_ns -= kHourNs;
  Machine::now_ns += 1'000'000;
  clock.calibrate();
  expect_accurate(clock, -kHourNs);
}

TEST_P(EachFakeSource, skips_an_interrupted_calibration) {
  TickClock clock = Machine::clock_of(GetParam());
  Machine::now_ns += 1'000'000;
  clock.calibrate();
  Machine::now_ns += 1'000'000;
  Machine::reading_ns = 4'000'000;  // the thread is preempted in each reading
  clock.calibrate();
  expect_accurate(clock);
}

TEST_P(EachFakeSource, never_goes_back) {
  std::mt19937_64 random(7);
  TickClock clock = Machine::clock_of(GetParam());
  std::vector<std::uint64_t> ticks;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 50; ++i) {
      Machine::now_ns += random() % 2'000;
      ticks.push_back(Machine::ticks_now(GetParam()));
    }
    Machine::reading_ns = random() % 10 == 0 ? 100'000 : random() % 1'000;
    Machine::now_ns += random() % 200'000;
    clock.calibrate();
  }
  std::int64_t last = 0;
  for (const std::uint64_t tick : ticks) {
    EXPECT_GE(clock.to_ns(tick), last);
    last = clock.to_ns(tick);
  }
}

INSTANTIATE_TEST_SUITE_P(Ticks, EachFakeSource,
                         testing::Values(TickSource::kClock, TickSource::kTsc));

// ---- the clocks of this machine ---------------------------------------------------------------

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

// Compares two real clocks, which a preempted thread may read at different times.
TEST_P(EachSource, slow_follows_the_wall_clock) {
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
    for (int i = 0; i < 500; ++i) ticks.push_back(read_ticks(GetParam()));
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
