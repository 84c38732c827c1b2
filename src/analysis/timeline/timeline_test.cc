#include "analysis/timeline/timeline.h"

#include <algorithm>
#include <optional>

#include <gtest/gtest.h>

#include "tests/support/random_trace.h"
#include "tests/support/run_pass.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::timeline {
namespace {

using model::Action;
using model::BlockState;
using report::DeviceReport;
using report::Series;
using tests::RandomTraceOptions;
using tests::TraceMaker;
using FinalState = RandomTraceOptions::FinalState;

report::Report run(const model::Trace& trace) {
  return tests::run_passes(trace, tests::passes(make()));
}

// The definitions, implemented as slowly and plainly as possible.
std::int64_t change_of(const model::Event& event, Series which) {
  const auto size = static_cast<std::int64_t>(event.size_bytes);
  const std::int64_t size_512 = (size + 511) / 512 * 512;
  const bool is_rounded = which == Series::kAllocatedRounded;
  const bool is_segment_series = which == Series::kReserved;
  const Action end =
      which == Series::kRequestedActive ? Action::kFreeCompleted : Action::kFreeRequested;
  if (is_segment_series) {
    if (event.action == Action::kSegmentAlloc || event.action == Action::kSegmentMap) return size;
    if (event.action == Action::kSegmentFree || event.action == Action::kSegmentUnmap) return -size;
    return 0;
  }
  if (event.action == Action::kAlloc) return is_rounded ? size_512 : size;
  if (event.action == end) return is_rounded ? -size_512 : -size;
  return 0;
}

// Whether an event allocates the block, and no later event requests its free.
bool is_without_request(const model::Trace& trace, std::uint64_t address) {
  std::optional<Action> last;
  for (std::size_t row = 0; row < trace.event_count(); ++row) {
    const model::Event event = trace.event(trace.devices.at(0), row);
    const bool is_of_blocks = event.action == Action::kAlloc || event.action == Action::kFree ||
                              event.action == Action::kFreeRequested ||
                              event.action == Action::kFreeCompleted;
    if (is_of_blocks && event.address == address) last = event.action;
  }
  return last == Action::kAlloc;
}

std::int64_t end_of(const model::Trace& trace, Series which) {
  std::int64_t end = 0;
  if (which == Series::kReserved) {
    for (const auto& segment : trace.segments) end += static_cast<std::int64_t>(segment.total_size);
    return end;
  }
  for (const auto& block : trace.blocks) {
    const auto size = static_cast<std::int64_t>(block.requested_size);
    const bool is_pending = block.state == BlockState::kActivePendingFree;
    if (block.state == BlockState::kInactive) continue;
    if (is_pending && which != Series::kRequestedActive &&
        !is_without_request(trace, block.address)) {
      continue;
    }
    end += which == Series::kAllocatedRounded ? (size + 511) / 512 * 512 : size;
  }
  return end;
}

// The running sum: [0] is the baseline, [e + 1] the value after event e.
std::vector<std::int64_t> curve_of(const model::Trace& trace, Series which) {
  std::vector<std::int64_t> curve{0};
  for (std::size_t row = 0; row < trace.event_count(); ++row) {
    curve.push_back(curve.back() + change_of(trace.event(trace.devices.at(0), row), which));
  }
  const std::int64_t shift = trace.has_final_state ? end_of(trace, which) - curve.back() : 0;
  for (auto& value : curve) value += shift;
  return curve;
}

void expect_totals(const report::SeriesTotals& totals, const std::vector<std::int64_t>& curve) {
  EXPECT_EQ(totals.baseline_bytes, curve.front());
  EXPECT_EQ(totals.end_bytes, curve.back());
  const auto peak = std::ranges::max_element(curve);
  EXPECT_EQ(totals.peak_bytes, *peak);
  if (peak == curve.begin()) {
    EXPECT_FALSE(totals.peak_event.has_value());
  } else {
    EXPECT_EQ(totals.peak_event, static_cast<std::uint64_t>(peak - curve.begin() - 1));
  }
}

void expect_level(const std::vector<report::TimelineBucket>& level, Series which,
                  const std::vector<std::int64_t>& curve) {
  std::uint64_t next = 0;
  for (const auto& bucket : level) {
    ASSERT_EQ(bucket.first_event, next);
    next += bucket.event_count;
    const auto first = curve.begin() + static_cast<std::ptrdiff_t>(bucket.first_event) + 1;
    const auto last = first + static_cast<std::ptrdiff_t>(bucket.event_count);
    ASSERT_EQ(bucket.of(which).min_bytes, *std::min_element(first, last));
    ASSERT_EQ(bucket.of(which).max_bytes, *std::max_element(first, last));
    ASSERT_EQ(bucket.of(which).last_bytes, *(last - 1));
  }
  EXPECT_EQ(next + 1, curve.size());
}

void expect_agrees_with_definitions(const model::Trace& trace) {
  const auto report = run(trace);
  ASSERT_EQ(report.devices.size(), 1u);
  const DeviceReport& device = report.devices[0];
  expect_totals(device.requested_allocated, curve_of(trace, Series::kRequestedAllocated));
  expect_totals(device.requested_active, curve_of(trace, Series::kRequestedActive));
  expect_totals(device.reserved, curve_of(trace, Series::kReserved));
  for (std::size_t i = 0; i < report::kSeriesCount; ++i) {
    const auto which = static_cast<Series>(i);
    const auto curve = curve_of(trace, which);
    EXPECT_EQ(device.timeline.baseline_bytes[i], curve.front());
    for (const auto& level : device.timeline.levels) expect_level(level, which, curve);
  }
}

// A recording that leaves out free_requested (skip_actions).
TEST(Timeline, blocks_that_wait_for_a_stream_stay_allocated_if_no_request_is_recorded) {
  TraceMaker maker;
  maker.alloc(0, 1024).event(Action::kFreeCompleted, 0, 1024);
  maker.alloc(0, 4096);
  maker.segment(0, 8192,
                {TraceMaker::block(0, 4096, 4096, BlockState::kActivePendingFree),
                 TraceMaker::block(4096, 512, 512, BlockState::kActivePendingFree)});
  const auto report = run(maker.finish());
  for (const auto* totals :
       {&report.devices.at(0).requested_allocated, &report.devices.at(0).requested_active}) {
    EXPECT_EQ(totals->start_bytes, 512);
    EXPECT_EQ(totals->peak_bytes, 4608);
    EXPECT_EQ(totals->end_bytes, 4608);
  }
  EXPECT_EQ(report.devices.at(0).allocated_bytes_end, 0u);
}

TEST(Timeline, random_traces_agree_with_the_definitions) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (auto final_state : {FinalState::kNone, FinalState::kConsistent, FinalState::kUnrelated}) {
      expect_agrees_with_definitions(tests::random_trace(
          {.seed = seed, .events = 1 + seed * 17 % 400, .final_state = final_state}));
    }
  }
}

TEST(Timeline, long_traces_have_wide_buckets_on_the_finest_level) {
  const auto report = run(tests::random_trace({.seed = 7, .events = 70'000}));
  const auto& levels = report.devices[0].timeline.levels;
  EXPECT_LE(levels.front().size(), report::Timeline::kFinestBuckets);
  EXPECT_LE(levels.back().size(), 64u);
  for (std::size_t i = 1; i < levels.size(); ++i) {
    EXPECT_EQ(levels[i].size(), (levels[i - 1].size() + 3) / 4);
  }
}

TEST(Timeline, slow_long_traces_agree_with_the_definitions) {
  expect_agrees_with_definitions(tests::random_trace({.seed = 7, .events = 70'000}));
}

TEST(Timeline, memory_live_before_the_recording_is_rolled_back_from_the_segments) {
  TraceMaker maker;
  maker.alloc(0x1000, 100).free(0x1000, 100).alloc(0x2000, 50);
  maker.segment(0x0, 1 << 20,
                {TraceMaker::block(0x2000, 512, 50), TraceMaker::block(0x3000, 512, 300),
                 TraceMaker::block(0x4000, 512, 7, BlockState::kActivePendingFree),
                 TraceMaker::block(0x5000, 512, 1, BlockState::kInactive)});
  const auto report = run(maker.finish());
  const DeviceReport& device = report.devices[0];
  EXPECT_EQ(device.requested_allocated.baseline_bytes, 300);
  EXPECT_EQ(device.requested_allocated.peak_bytes, 400);
  EXPECT_EQ(device.requested_allocated.peak_event, 0u);
  EXPECT_EQ(device.requested_allocated.peak_time_ns, 1'000'000);
  EXPECT_EQ(device.requested_allocated.end_bytes, 350);
  EXPECT_EQ(device.requested_active.baseline_bytes, 307);
  EXPECT_EQ(device.reserved.end_bytes, 1 << 20);
  EXPECT_EQ(device.allocated_bytes_end, 1024u);
  EXPECT_EQ(device.blocks, 4u);
  EXPECT_EQ(device.blocks_allocated, 2u);
  EXPECT_EQ(device.segments, 1u);
  EXPECT_EQ(device.first_time_ns, 1'000'000);
  EXPECT_EQ(device.last_time_ns, 1'003'000);
}

TEST(Timeline, a_baseline_below_zero_is_not_clamped) {
  TraceMaker maker;
  maker.alloc(0x1000, 100);
  maker.builder().final_state_known();
  EXPECT_EQ(run(maker.finish()).devices[0].requested_active.baseline_bytes, -100);
}

TEST(Timeline, a_peak_at_the_baseline_has_no_event) {
  TraceMaker maker;
  maker.free(0x1000, 100).alloc(0x2000, 100);
  const auto trace = [&] {
    maker.segment(0, 4096, {TraceMaker::block(0x2000, 512, 100)});
    return maker.finish();
  }();
  const auto report = run(trace);
  EXPECT_EQ(report.devices[0].requested_active.peak_bytes, 100);
  EXPECT_FALSE(report.devices[0].requested_active.peak_event.has_value());
  EXPECT_EQ(report.devices[0].frees_without_alloc, 1u);
}

TEST(Timeline, without_segments_it_begins_at_what_was_live_before) {
  TraceMaker maker;
  maker.alloc(0x1000, 100);
  maker.builder().set_before({model::DeviceType::kCuda, 0}, 1000, 5000);
  const auto report = run(maker.finish());
  EXPECT_EQ(report.devices[0].requested_allocated.baseline_bytes, 1000);
  EXPECT_EQ(report.devices[0].requested_active.end_bytes, 1100);
  EXPECT_EQ(report.devices[0].reserved.end_bytes, 5000);
  EXPECT_EQ(report.devices[0].allocated_bytes_end, 1100u);
}

TEST(Timeline, older_memory_in_the_first_events_counts_at_the_start) {
  const tests::Reported older = {.flags = model::LifetimeFlags::kAdopted};
  TraceMaker maker;
  maker.event(Action::kSegmentAlloc, 0x1000, 4096).alloc_reported(0x1000, 100, older);
  maker.alloc_reported(0x1200, 50, older);
  maker.event(Action::kSegmentAlloc, 0x9000, 8192).alloc(0x9000, 30);
  maker.alloc_reported(0x2000, 7, older);  // seen too late: how much was live before it is unknown
  maker.builder().set_before({model::DeviceType::kCuda, 0}, 0, 0);
  const auto report = run(maker.finish());
  const report::DeviceReport& device = report.devices[0];
  EXPECT_EQ(device.requested_allocated.start_bytes, 150);
  EXPECT_EQ(device.reserved.start_bytes, 4096);
  EXPECT_EQ(device.requested_allocated.baseline_bytes, 0);
  EXPECT_EQ(device.requested_allocated.end_bytes, 187);
}

TEST(Timeline, without_older_memory_the_start_is_the_baseline) {
  TraceMaker maker;
  maker.alloc(0x1000, 100).alloc_reported(0x2000, 7, {.flags = model::LifetimeFlags::kAdopted});
  maker.builder().set_before({model::DeviceType::kCuda, 0}, 1000, 5000);
  const auto report = run(maker.finish());
  EXPECT_EQ(report.devices[0].requested_allocated.start_bytes, 1000);
}

TEST(Timeline, a_lost_segment_changes_no_series_if_the_start_is_reported) {
  TraceMaker maker;
  maker.alloc(0x1000, 1000);
  maker.alloc(0x900000, 5000);  // its segment was lost
  maker.segment(0x1000, 4096, {TraceMaker::block(0x1000, 1024, 1000)});
  maker.builder().set_before({model::DeviceType::kCuda, 0}, 0, 0);
  maker.builder().blocks_reported({model::DeviceType::kCuda, 0});
  const auto report = run(maker.finish());
  const report::DeviceReport& device = report.devices[0];
  for (const auto& series : {device.requested_allocated, device.requested_active}) {
    EXPECT_EQ(series.baseline_bytes, 0);
    EXPECT_EQ(series.peak_bytes, 6000);
    EXPECT_EQ(series.end_bytes, 6000);
  }
  EXPECT_EQ(device.allocated_bytes_end, 6000u);
  EXPECT_EQ(device.segments, 1u);
}

TEST(Timeline, a_device_without_events_reports_its_segments) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCuda, 1});
  maker.segment(0, 4096, {TraceMaker::block(0x0, 512, 100)});
  maker.on({model::DeviceType::kCuda, 0});
  const auto report = run(maker.finish());
  ASSERT_EQ(report.devices.size(), 2u);
  EXPECT_EQ(report.devices[0].reserved.peak_bytes, 0);
  EXPECT_EQ(report.devices[1].device, 1);
  EXPECT_EQ(report.devices[1].device_type, "cuda");
  EXPECT_EQ(report.devices[1].history, "none");
  EXPECT_EQ(report.devices[1].requested_active.peak_bytes, 100);
  EXPECT_TRUE(report.devices[1].timeline.levels.empty());
}

TEST(Timeline, unknown_times_stay_unknown) {
  TraceMaker maker;
  maker.without_times().alloc(0x1000, 100);
  const auto report = run(maker.finish());
  EXPECT_FALSE(report.devices[0].first_time_ns.has_value());
  EXPECT_FALSE(report.devices[0].requested_active.peak_time_ns.has_value());
  EXPECT_EQ(report.devices[0].requested_active.peak_event, 0u);
}

TEST(Timeline, absurd_sizes_do_not_overflow) {
  TraceMaker maker;
  maker.alloc(1, ~std::uint64_t{0}).alloc(2, ~std::uint64_t{0} - 7).free(1, std::uint64_t{1} << 63);
  EXPECT_EQ(run(maker.finish()).devices[0].events, 4u);
}

}  // namespace
}  // namespace plimsoll::analysis::timeline
