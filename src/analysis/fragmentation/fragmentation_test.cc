#include "analysis/fragmentation/fragmentation.h"

#include <gtest/gtest.h>

#include "tests/support/run_pass.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::fragmentation {
namespace {

using model::Action;
using model::BlockState;
using tests::TraceMaker;

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

// A fake for the pass that fills report.devices.
class FakeTimeline final : public Pass {
 public:
  explicit FakeTimeline(std::optional<std::uint64_t> reserved_peak = {})
      : reserved_peak_(reserved_peak) {}
  const char* name() const override { return "timeline"; }
  void clear(report::Report&) const override {}
  Status run(PassContext& context) const override {
    context.report.devices.resize(context.trace.devices.size());
    for (auto& device : context.report.devices) device.reserved.peak_event = reserved_peak_;
    return {};
  }

 private:
  std::optional<std::uint64_t> reserved_peak_;
};

report::Fragmentation run(const model::Trace& trace,
                          std::optional<std::uint64_t> reserved_peak = {}) {
  const auto report = tests::run_passes(
      trace,
      tests::passes(std::unique_ptr<Pass>(std::make_unique<FakeTimeline>(reserved_peak)), make()));
  return report.devices.empty() ? report::Fragmentation{} : report.devices[0].fragmentation;
}

// 40 MiB of large segments: one pinned by 5 MiB, one empty.
void two_segments(TraceMaker& maker) {
  const model::StackId stack = maker.stack({{"/home/u/keep.py", 7, "keep"}});
  maker.segment(
      0, 20 * kMib,
      {TraceMaker::block(0, 5 * kMib, 5 * kMib - 100, BlockState::kActiveAllocated, stack),
       TraceMaker::block(5 * kMib, 12 * kMib, 77, BlockState::kInactive),
       TraceMaker::block(17 * kMib, 1 * kMib, kMib, BlockState::kActivePendingFree),
       TraceMaker::block(18 * kMib, 2 * kMib, 77, BlockState::kInactive)});
  maker.segment(100 * kMib, 20 * kMib,
                {TraceMaker::block(100 * kMib, 20 * kMib, 1, BlockState::kInactive)});
}

TEST(Fragmentation, measures_the_final_blocks_exactly) {
  TraceMaker maker;
  two_segments(maker);
  const auto found = run(maker.finish());
  EXPECT_EQ(found.internal_bytes, 100u);
  EXPECT_EQ(found.cached_bytes, 34 * kMib);
  EXPECT_EQ(found.releasable_bytes, 20 * kMib);
  EXPECT_EQ(found.pinned_bytes, 14 * kMib);
  EXPECT_EQ(found.largest_free_bytes, 20 * kMib);
  EXPECT_DOUBLE_EQ(found.ratio, 35.0 / 40.0);
  EXPECT_FALSE(found.stranded_bytes.has_value()) << "no request to measure against";
  ASSERT_EQ(found.segments.size(), 1u);
  EXPECT_EQ(found.segments[0].pinning_blocks, 2u);
  EXPECT_EQ(found.segments[0].pins[0].line, "/home/u/keep.py:7 (keep)");
}

TEST(Fragmentation, stranded_is_measured_against_the_largest_allocation) {
  TraceMaker maker;
  two_segments(maker);
  maker.alloc(300 * kMib, 2 * kMib).alloc(400 * kMib, 13 * kMib).alloc(500 * kMib, 9 * kMib);
  const auto found = run(maker.finish());
  EXPECT_EQ(found.stranded_request_bytes, 13 * kMib);
  EXPECT_EQ(found.stranded_bytes, 14 * kMib);
}

TEST(Fragmentation, a_failed_request_comes_before_a_larger_allocation) {
  TraceMaker maker;
  two_segments(maker);
  maker.alloc(400 * kMib, 13 * kMib).event(Action::kOom, 0, 10 * kMib);
  const auto found = run(maker.finish());
  EXPECT_EQ(found.stranded_request_bytes, 10 * kMib);
  EXPECT_EQ(found.stranded_bytes, 2 * kMib) << "the 12 MiB gap serves 10 MiB";
}

TEST(Fragmentation, measures_stranded_bytes_at_the_peak_of_reserved_bytes) {
  TraceMaker maker;
  const model::StackId keep = maker.stack({{"/home/u/keep.py", 7, "keep"}});
  const model::StackId ask = maker.stack({{"/home/u/ask.py", 8, "ask"}});
  maker.alloc(0, 900 * kMib).alloc(900 * kMib, 2 * kMib, keep).free(0, 900 * kMib);
  maker.event(Action::kSegmentAlloc, 5000 * kMib, 950 * kMib, ask);  // event 4
  maker.alloc(5000 * kMib, 950 * kMib, ask).free(5000 * kMib, 950 * kMib, ask);
  maker.free(900 * kMib, 2 * kMib, keep);
  maker.segment(0, 1000 * kMib, {TraceMaker::block(0, 1000 * kMib, 1, BlockState::kInactive)});
  maker.segment(5000 * kMib, 950 * kMib,
                {TraceMaker::block(5000 * kMib, 950 * kMib, 1, BlockState::kInactive)});
  const auto peak = run(maker.finish(), 4).at_reserved_peak;
  EXPECT_EQ(peak.event, 4u);
  EXPECT_EQ(peak.line, "/home/u/ask.py:8 (ask)");
  EXPECT_EQ(peak.requested_bytes, 950 * kMib);
  EXPECT_EQ(peak.stranded_bytes, 998 * kMib);
  ASSERT_EQ(peak.pinning_lines.size(), 1u);
  EXPECT_EQ(peak.pinning_lines[0].line, "/home/u/keep.py:7 (keep)");
}

TEST(Fragmentation, is_skipped_with_its_reason_without_segments) {
  TraceMaker maker;
  const auto trace = maker.alloc(1, 1).finish();
  const auto report = tests::run_passes(
      trace, tests::passes(std::unique_ptr<Pass>(std::make_unique<FakeTimeline>()), make()));
  ASSERT_EQ(report.passes.size(), 2u);
  EXPECT_EQ(report.passes[1].state, report::PassState::kSkipped);
  EXPECT_EQ(report.passes[1].reason, "this file does not contain the allocator's segments");
}

}  // namespace
}  // namespace plimsoll::analysis::fragmentation
