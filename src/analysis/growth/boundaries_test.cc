#include "analysis/growth/boundaries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::growth {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::TraceMaker;

std::vector<std::uint32_t> events_of(const Boundaries& boundaries) {
  std::vector<std::uint32_t> events;
  for (const Boundary& boundary : boundaries.kept) events.push_back(boundary.event);
  return events;
}

// Events 10 at 0, 10, 20, ... µs; steps end after the times given.
model::Trace with_steps(const std::string& name, std::initializer_list<std::int64_t> ends_us,
                        int events = 10) {
  TraceMaker maker;
  for (int i = 0; i < events; ++i) maker.at(i * 10'000).alloc(static_cast<std::uint64_t>(i) + 1, 1);
  int number = 0;
  for (const std::int64_t end_us : ends_us) {
    const bool is_numbered = name == "ProfilerStep#";
    maker.annotation(is_numbered ? name + std::to_string(number++) : name, 0, end_us * 1'000);
  }
  return maker.finish();
}

TEST(Boundaries, steps_end_before_the_first_later_event) {
  const auto trace = with_steps("Optimizer.step#AdamW.step", {15, 20, 45, 70});
  const auto found = find_boundaries(trace, trace.devices[0]);
  EXPECT_EQ(found.name, "Optimizer.step#AdamW.step");
  EXPECT_THAT(events_of(found), ElementsAre(3, 5, 8));  // 2 is warm-up
  EXPECT_EQ(found.kept[0].step, 1u);
}

TEST(Boundaries, step_that_ends_after_the_last_event_ends_the_recording) {
  const auto trace = with_steps("Optimizer.step#SGD.step", {15, 25, 35, 1000, 2000});
  EXPECT_THAT(events_of(find_boundaries(trace, trace.devices[0])), ElementsAre(3, 4, 10));
}

TEST(Boundaries, steps_lost_before_the_first_event_do_not_count) {
  const auto trace = with_steps("Optimizer.step#SGD.step", {-30, -20, -10, 25, 35});
  const auto found = find_boundaries(trace, trace.devices[0]);
  EXPECT_THAT(found.kept, IsEmpty());
  EXPECT_THAT(found.why_none, HasSubstr("holds 2 steps"));
}

TEST(Boundaries, profiler_steps_are_one_kind_though_each_has_its_number) {
  const auto trace = with_steps("ProfilerStep#", {15, 25, 35, 45});
  const auto found = find_boundaries(trace, trace.devices[0]);
  EXPECT_EQ(found.name, "ProfilerStep");
  EXPECT_EQ(found.kept.size(), 3u);
}

TEST(Boundaries, many_steps_are_thinned_evenly_after_a_quarter_of_warm_up) {
  TraceMaker maker;
  for (int i = 0; i < 1000; ++i) {
    maker.alloc(static_cast<std::uint64_t>(i) + 1, 1);
    maker.annotation("Optimizer.step#SGD.step", 0, maker.time_ns() - 1);
  }
  const auto trace = maker.finish();
  const auto found = find_boundaries(trace, trace.devices[0]);
  ASSERT_EQ(found.kept.size(), 64u);
  EXPECT_EQ(found.kept.front().step, 250u);
  EXPECT_EQ(found.kept.back().step, 999u);
  EXPECT_EQ(found.kept.back().event, 1000u);
}

TEST(Boundaries, unmarked_steps_are_the_valleys_of_the_total) {
  TraceMaker maker;
  for (std::uint64_t step = 0; step < 10; ++step) {
    for (std::uint64_t layer = 1; layer <= 5; ++layer) maker.alloc(layer, 1000);
    for (std::uint64_t layer = 1; layer <= 5; ++layer) maker.free(layer, 1000);
    maker.alloc(100 + step, 10);
  }
  const auto trace = maker.finish();
  const auto found = find_boundaries(trace, trace.devices[0]);
  EXPECT_EQ(found.name, "cycle");
  ASSERT_GE(found.kept.size(), 6u);
  EXPECT_EQ((found.kept[1].event - found.kept[0].event) % 16, 0u);
}

TEST(Boundaries, forward_that_keeps_what_each_layer_makes_has_no_steps) {
  TraceMaker maker;
  for (std::uint64_t layer = 0; layer < 40; ++layer) {
    maker.alloc(layer + 1, 1000).alloc(1000, 800).free(1000, 800);
  }
  const auto trace = maker.finish();
  const auto found = find_boundaries(trace, trace.devices[0]);
  EXPECT_THAT(found.kept, IsEmpty());
  EXPECT_THAT(found.why_none, HasSubstr("no steps are marked"));
}

TEST(Boundaries, device_without_events_has_none) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCuda, 0});
  const auto trace = maker.finish();
  EXPECT_THAT(find_boundaries(trace, trace.devices[0]).why_none, HasSubstr("needs events"));
}

}  // namespace
}  // namespace plimsoll::analysis::growth
