#include "tiles/axis.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/trace_maker.h"

namespace plimsoll::tiles {
namespace {

using model::DeviceTrace;
using model::Trace;
using tests::TraceMaker;

// A trace with an event at each of the times; a step ends before each of the events in `ends`.
Trace make_trace(const std::vector<std::int64_t>& times_ns, const std::vector<std::size_t>& ends) {
  TraceMaker maker;
  std::uint64_t step = 10;
  for (std::size_t event = 0; event <= times_ns.size(); ++event) {
    for (const std::size_t end : ends) {
      if (end == event) maker.step(step++);
    }
    if (event < times_ns.size()) maker.at(times_ns[event]).alloc(event << 20, 512);
  }
  return maker.finish();
}

std::vector<double> positions(const Axis& axis, std::uint32_t count) {
  std::vector<double> all;
  for (std::uint32_t event = 0; event < count; ++event) all.push_back(axis.position(event));
  return all;
}

TEST(Axis, has_names_for_its_kinds) {
  for (const AxisKind kind : {AxisKind::kStep, AxisKind::kTime, AxisKind::kEvent}) {
    EXPECT_EQ(axis_named(to_string(kind)), kind);
  }
  EXPECT_FALSE(axis_named("steps"));
}

TEST(Axis, counts_events) {
  const Trace trace = make_trace({500, 400, 700}, {});
  const Axis axis(trace, trace.devices[0], AxisKind::kEvent);
  EXPECT_EQ(axis.end(), 3);
  EXPECT_EQ(positions(axis, 3), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(axis.first_event(-1), 0u);
  EXPECT_EQ(axis.first_event(1), 1u);
  EXPECT_EQ(axis.first_event(1.5), 2u);
  EXPECT_EQ(axis.first_event(2.5), 3u);
}

TEST(Axis, time_never_goes_backwards) {
  const Trace trace = make_trace({500, 400, 700, 600, 900}, {});
  const Axis axis(trace, trace.devices[0], AxisKind::kTime);
  EXPECT_EQ(positions(axis, 5), (std::vector<double>{0, 0, 200, 200, 400}));
  EXPECT_EQ(axis.end(), 401);
  EXPECT_EQ(axis.first_event(200), 2u);
  EXPECT_EQ(axis.first_event(200.5), 4u);
  EXPECT_EQ(axis.first_event(axis.end()), 5u);
}

TEST(Axis, unknown_times_repeat_the_time_before) {
  const Trace trace = make_trace({model::kNoTime, 400, model::kNoTime, 600}, {});
  const Axis axis(trace, trace.devices[0], AxisKind::kTime);
  EXPECT_EQ(positions(axis, 4), (std::vector<double>{0, 0, 0, 200}));
}

TEST(Axis, is_known_if_there_are_steps_or_times_that_advance) {
  const Trace still = make_trace({500, 500, 300}, {});
  EXPECT_FALSE(Axis::is_known(still, still.devices[0], AxisKind::kTime));
  EXPECT_FALSE(Axis::is_known(still, still.devices[0], AxisKind::kStep));
  EXPECT_TRUE(Axis::is_known(still, still.devices[0], AxisKind::kEvent));
  EXPECT_EQ(Axis::best(still, still.devices[0]), AxisKind::kEvent);
  const Trace steps = make_trace({model::kNoTime, 500, 600}, {1});
  EXPECT_TRUE(Axis::is_known(steps, steps.devices[0], AxisKind::kTime));
  EXPECT_TRUE(Axis::is_known(steps, steps.devices[0], AxisKind::kStep));
  EXPECT_EQ(Axis::best(steps, steps.devices[0]), AxisKind::kStep);
}

TEST(Axis, a_step_is_divided_by_its_time) {
  // TraceMaker places a mark one microsecond after the preceding event.
  const Trace trace = make_trace({0, 1'000, 4'000, 20'000, 30'000}, {3});
  const Axis axis(trace, trace.devices[0], AxisKind::kStep);
  EXPECT_EQ(positions(axis, 3), (std::vector<double>{0, 0.2, 0.8}));  // the mark is at 5 us
  EXPECT_EQ(axis.position(3), 1 + 15'000 / 25'000.0);
  EXPECT_LT(axis.position(4), 2);
  EXPECT_EQ(axis.end(), 2);
  EXPECT_EQ(axis.first_event(1), 3u);
}

TEST(Axis, a_step_without_times_is_divided_by_its_events) {
  const std::int64_t none = model::kNoTime;
  const Trace trace = make_trace({none, none, none, none, none, none}, {4, 4, 6});
  const Axis axis(trace, trace.devices[0], AxisKind::kStep);
  // The second step is empty, and no event follows the last.
  EXPECT_EQ(positions(axis, 6), (std::vector<double>{0, 0.25, 0.5, 0.75, 2, 2.5}));
  EXPECT_EQ(axis.end(), 3);
}

}  // namespace
}  // namespace plimsoll::tiles
