#include "analysis/oom/oom.h"

#include <gtest/gtest.h>

#include "model/live_set.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_pass.h"
#include "tests/support/trace_maker.h"
#include "tests/support/units.h"

namespace plimsoll::analysis::oom {
namespace {

using model::Action;
using model::BlockState;
using tests::kGib;
using tests::kMib;
using tests::TraceMaker;

// A fake for the passes that fill the totals and the growth table.
class FakePass final : public Pass {
 public:
  explicit FakePass(const char* name, std::vector<report::GrowthRow> growth = {},
                    std::int64_t baseline = 0)
      : name_(name), growth_(std::move(growth)), baseline_(baseline) {}
  const char* name() const override { return name_; }
  void clear(report::Report&) const override {}
  Status run(PassContext& context) const override {
    if (context.report.devices.empty()) context.report.devices.resize(context.trace.devices.size());
    if (name_ == std::string("growth")) context.report.tables.growth = growth_;
    if (name_ == std::string("timeline")) {
      auto& baselines = context.report.devices.at(0).timeline.baseline_bytes;
      baselines[static_cast<std::size_t>(report::Series::kReserved)] = baseline_;
    }
    return {};
  }

 private:
  const char* name_;
  std::vector<report::GrowthRow> growth_;
  std::int64_t baseline_;
};

std::vector<report::OomDetails> run(const model::Trace& trace,
                                    std::vector<report::GrowthRow> growth = {},
                                    std::int64_t reserved = 0) {
  const auto report = tests::run_passes(
      trace, tests::passes(
                 make(),
                 std::unique_ptr<Pass>(std::make_unique<FakePass>(
                     "timeline", std::vector<report::GrowthRow>{}, reserved)),
                 std::unique_ptr<Pass>(std::make_unique<FakePass>("growth", std::move(growth)))));
  return report.devices.at(0).oom_details;
}

void add_large_segment(TraceMaker& maker, std::uint64_t address, std::uint64_t size,
                       const std::vector<model::Block>& blocks) {
  model::Segment segment;
  segment.address = address;
  segment.total_size = size;
  segment.type = model::SegmentType::kLarge;
  maker.builder().add_segment(segment, blocks);
}

TEST(Oom, uses_the_free_pieces_at_the_event_not_at_the_end) {
  TraceMaker maker;
  const auto scratch = maker.stack({{"/home/u/eval.py", 3, "scratch"}});
  const auto keep = maker.stack({{"/home/u/eval.py", 4, "keep"}});
  const auto ask = maker.stack({{"/home/u/train.py", 9, "attend"}});
  std::vector<model::Block> blocks;
  for (std::uint64_t i = 0; i < 4; ++i) {
    maker.event(Action::kSegmentAlloc, (i + 1) * 10 * kGib, kGib);
    maker.alloc((i + 1) * 10 * kGib, 900 * kMib, scratch);
    maker.alloc((i + 1) * 10 * kGib + 900 * kMib, 3 * kMib, keep);
    maker.free((i + 1) * 10 * kGib, 900 * kMib, scratch);
  }
  maker.event(Action::kOom, 200 * kMib, 2 * kGib, ask);
  for (std::uint64_t i = 0; i < 4; ++i) {
    maker.free((i + 1) * 10 * kGib + 900 * kMib, 3 * kMib, keep);
    maker.event(Action::kSegmentFree, (i + 1) * 10 * kGib, kGib);
  }
  maker.builder().final_state_known();
  const auto ooms = run(maker.finish());
  ASSERT_EQ(ooms.size(), 1u);
  const report::OomDetails& oom = ooms[0];
  EXPECT_EQ(oom.line, "/home/u/train.py:9 (attend)");
  EXPECT_EQ(oom.event, 20u);
  EXPECT_EQ(oom.requested_bytes, 2 * kGib);
  EXPECT_EQ(oom.device_free_bytes, 200 * kMib);
  EXPECT_EQ(oom.reserved_bytes, static_cast<std::int64_t>(4 * kGib));
  EXPECT_EQ(oom.requested_active_bytes, static_cast<std::int64_t>(12 * kMib));
  EXPECT_EQ(oom.stranded_bytes, 4 * kGib - 12 * kMib);
  EXPECT_EQ(oom.largest_usable_bytes, 900 * kMib);
  EXPECT_EQ(oom.cause, "fragmentation");
  ASSERT_EQ(oom.pinning_lines.size(), 1u);
  EXPECT_EQ(oom.pinning_lines[0].line, "/home/u/eval.py:4 (keep)");
  EXPECT_EQ(oom.pinning_lines[0].blocks, 4u);
  ASSERT_EQ(oom.top_lines.size(), 1u);
  EXPECT_EQ(oom.top_lines[0].bytes, 12 * kMib);
  EXPECT_DOUBLE_EQ(oom.top_lines[0].share, 1.0);
}

TEST(Oom, growth_is_the_cause_if_the_table_shows_that_a_quarter_grew) {
  TraceMaker maker;
  const auto weights = maker.stack({{"/home/u/model.py", 3, "build"}});
  const auto kept = maker.stack({{"/home/u/train.py", 9, "step"}});
  std::vector<model::Block> blocks{
      TraceMaker::block(0, kGib, kGib, BlockState::kActiveAllocated, weights)};
  for (std::uint64_t step = 0; step < 10; ++step) {
    maker.alloc(kGib + step * 100 * kMib, 100 * kMib, kept);
    blocks.push_back(TraceMaker::block(kGib + step * 100 * kMib, 100 * kMib, 100 * kMib,
                                       BlockState::kActiveAllocated, kept));
  }
  maker.event(Action::kOom, 0, 300 * kMib, kept);
  add_large_segment(maker, 0, 2 * kGib, blocks);
  report::GrowthRow row;
  row.line = "/home/u/train.py:9 (step)";
  row.steps = 9;
  row.first_bytes = 200 * kMib;
  row.last_bytes = 1000 * kMib;
  row.bytes_per_step = 100.0 * kMib;
  row.grown_bytes = 800 * kMib;
  row.is_certain = true;
  const model::Trace trace = maker.finish();
  EXPECT_EQ(run(trace, {row}).at(0).cause, "steady_growth");
  EXPECT_EQ(run(trace, {row}).at(0).grown_bytes, 800 * kMib);
  row.is_certain = false;
  EXPECT_EQ(run(trace, {row}).at(0).cause, "too_big");
}

TEST(Oom, every_event_of_a_burst_is_kept) {
  TraceMaker maker;
  for (int i = 0; i < 300; ++i) maker.event(Action::kOom, 0, kGib);
  const auto ooms = run(maker.finish());
  ASSERT_EQ(ooms.size(), 300u);
  EXPECT_EQ(ooms[199].cause, "one_large_request");
  EXPECT_EQ(ooms[299].cause, "");
  EXPECT_EQ(ooms[299].event, 299u);
}

TEST(Oom, live_memory_at_each_event_is_the_live_set_of_that_event) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    for (const auto state : {tests::RandomTraceOptions::FinalState::kConsistent,
                             tests::RandomTraceOptions::FinalState::kUnrelated}) {
      const model::Trace trace =
          tests::random_trace({.seed = seed, .events = 400, .lines = 4, .final_state = state});
      const model::DeviceTrace& device = trace.devices[0];
      for (const report::OomDetails& oom : run(trace)) {
        std::uint64_t bytes = 0, count = 0;
        for (const std::uint32_t row : model::live_set(device, model::Liveness::kActive,
                                                       static_cast<std::int64_t>(oom.event))) {
          bytes += trace.size_bytes(device, row);
          count += 1;
        }
        for (const auto& line : oom.top_lines) bytes -= line.bytes, count -= line.count;
        ASSERT_EQ(bytes, 0u) << "seed " << seed;
        ASSERT_EQ(count, 0u) << "seed " << seed;
      }
    }
  }
}

TEST(Oom, without_segments_the_totals_are_still_reported) {
  TraceMaker maker;
  maker.alloc(0, 5 * kGib).event(Action::kOom, 7, kGib);
  const auto ooms = run(maker.finish(), {}, static_cast<std::int64_t>(6 * kGib));
  EXPECT_EQ(ooms.at(0).requested_active_bytes, static_cast<std::int64_t>(5 * kGib));
  EXPECT_EQ(ooms.at(0).reserved_bytes, static_cast<std::int64_t>(6 * kGib));
  EXPECT_EQ(ooms.at(0).stranded_bytes, 0u);
  EXPECT_EQ(ooms.at(0).cause, "too_big");
}

}  // namespace
}  // namespace plimsoll::analysis::oom
