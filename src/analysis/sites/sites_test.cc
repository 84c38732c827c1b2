#include "analysis/sites/sites.h"

#include <map>

#include <gtest/gtest.h>

#include "tests/support/random_trace.h"
#include "tests/support/run_pass.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::sites {
namespace {

using model::Action;
using report::SiteRow;
using tests::TraceMaker;

std::vector<SiteRow> run(const model::Trace& trace, const Options& options = {}) {
  return tests::run_passes(trace, tests::passes(make()), options).tables.sites;
}

const SiteRow& row_of(const std::vector<SiteRow>& rows, const std::string& line) {
  for (const SiteRow& row : rows) {
    if (row.line == line) return row;
  }
  ADD_FAILURE() << "no row for " << line;
  static const SiteRow kNothing;
  return kNothing;
}

TEST(Sites, each_line_adds_up_its_allocations) {
  TraceMaker maker;
  const auto keep = maker.stack({{"/keep.py", 1, "f"}});
  const auto churn = maker.stack({{"/churn.py", 2, "g"}});
  maker.alloc(1, 1000, keep);                                                // 0, 1.000 ms
  for (int i = 0; i < 4; ++i) maker.alloc(2, 10, churn).free(2, 10, churn);  // 1 to 12
  maker.alloc(3, 5, churn).alloc(4, 7, churn);                               // 13, 14
  for (int i = 0; i < 7; ++i) maker.event(Action::kSnapshot, 0, 0);          // 15 to 21
  maker.free(3, 5, churn);                                                   // 22, 23
  const auto rows = run(maker.finish());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].line, "/keep.py:1 (f)");
  EXPECT_EQ(rows[0].never_freed, 1u);
  EXPECT_EQ(rows[0].never_freed_bytes, 1000u);
  EXPECT_DOUBLE_EQ(rows[0].byte_seconds, 1000 * 23e-6);
  EXPECT_EQ(rows[1].line, "/churn.py:2 (g)");
  EXPECT_EQ(rows[1].allocations, 6u);
  EXPECT_EQ(rows[1].bytes, 52u);
  EXPECT_EQ(rows[1].temporary, 4u);
  EXPECT_EQ(rows[1].temporary_bytes, 40u);
  EXPECT_EQ(rows[1].never_freed_bytes, 7u);
  EXPECT_EQ(rows[1].largest_bytes, 10u);
  EXPECT_EQ(rows[1].commonest_size_bytes, 10u);
  EXPECT_EQ(rows[1].commonest_size_count, 4u);
}

TEST(Sites, temporary_means_freed_within_eight_events) {
  for (const int between : {6, 7}) {
    TraceMaker maker;
    maker.alloc(1, 10);
    for (int i = 0; i < between; ++i) maker.event(Action::kSnapshot, 0, 0);
    maker.free(1, 10);
    EXPECT_EQ(run(maker.finish()).at(0).temporary, between == 6 ? 1u : 0u);
  }
}

TEST(Sites, memory_from_before_the_recording_belongs_to_no_site) {
  TraceMaker maker;
  maker.free(1, 10, maker.stack({{"/a.py", 1, "f"}}));
  EXPECT_TRUE(run(maker.finish()).empty());
}

TEST(Sites, lines_that_lead_by_any_measure_are_kept) {
  TraceMaker maker;
  const auto big = maker.stack({{"/big.py", 1, "f"}});
  const auto leak = maker.stack({{"/leak.py", 1, "f"}});
  const auto churn = maker.stack({{"/churn.py", 1, "f"}});
  const auto nothing = maker.stack({{"/nothing.py", 1, "f"}});
  maker.alloc(1, 1000, big);
  for (int i = 0; i < 9; ++i) maker.event(Action::kSnapshot, 0, 0);
  maker.free(1, 1000, big).alloc(2, 5, leak).alloc(4, 4, nothing);
  for (int i = 0; i < 3; ++i) maker.alloc(3, 1, churn).free(3, 1, churn);
  Options options;
  options.top = 1;
  const auto rows = run(maker.finish(), options);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].line, "/big.py:1 (f)");
  EXPECT_EQ(rows[1].line, "/leak.py:1 (f)");
  EXPECT_EQ(rows[2].line, "/churn.py:1 (f)");
}

TEST(Sites, without_times_there_are_no_byte_seconds) {
  TraceMaker maker;
  maker.without_times().alloc(1, 1000);
  EXPECT_EQ(run(maker.finish()).at(0).byte_seconds, 0.0);
}

TEST(Sites, only_the_selected_device_is_shown) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCuda, 0}).alloc(1, 10);
  maker.on({model::DeviceType::kCuda, 1}).alloc(1, 20);
  const auto trace = maker.finish();
  EXPECT_EQ(run(trace).size(), 2u);
  Options options;
  options.device = model::Device{model::DeviceType::kCuda, 1};
  const auto rows = run(trace, options);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].bytes, 20u);
}

TEST(Sites, a_file_without_events_is_skipped_with_its_reason) {
  TraceMaker maker;
  maker.segment(0, 4096, {TraceMaker::block(0, 512, 100)});
  const auto report = tests::run_passes(maker.finish(), tests::passes(make()));
  EXPECT_EQ(report.passes.at(0).state, report::PassState::kSkipped);
  EXPECT_EQ(report.passes.at(0).reason, "needs events: this file has only the final state");
}

// The definitions, applied by address: in random traces each address is used only once.
std::map<std::string, SiteRow> slow_rows(const model::Trace& trace) {
  const model::UserLines lines(trace);
  std::map<std::string, SiteRow> rows;
  std::map<std::string, std::map<std::uint64_t, std::uint64_t>> sizes;
  for (std::size_t born = 0; born < trace.event_count(); ++born) {
    const auto alloc = trace.event(trace.devices.at(0), born);
    if (alloc.action != Action::kAlloc) continue;
    const std::string line = lines.label(alloc.stack);
    SiteRow& row = rows[line];
    ++row.allocations;
    row.bytes += alloc.size_bytes;
    ++sizes[line][alloc.size_bytes];
    row.largest_bytes = std::max(row.largest_bytes, alloc.size_bytes);
    bool is_freed = false;
    auto end_ns = trace.devices.at(0).events.time_ns.back();
    for (std::size_t died = born; died < trace.event_count(); ++died) {
      const auto free = trace.event(trace.devices.at(0), died);
      if (free.address != alloc.address) continue;
      is_freed = is_freed || free.action == Action::kFreeRequested;
      if (free.action != Action::kFreeCompleted) continue;
      end_ns = free.time_ns;
      if (died - born <= 8) row.temporary_bytes += alloc.size_bytes, ++row.temporary;
    }
    if (!is_freed) row.never_freed_bytes += alloc.size_bytes, ++row.never_freed;
    row.byte_seconds +=
        static_cast<double>(alloc.size_bytes) * static_cast<double>(end_ns - alloc.time_ns) * 1e-9;
  }
  for (auto& [line, row] : rows) {
    for (const auto& [size, count] : sizes[line]) {
      if (count >= row.commonest_size_count) {
        row.commonest_size_bytes = size, row.commonest_size_count = count;
      }
    }
  }
  return rows;
}

TEST(Sites, random_traces_agree_with_the_definitions) {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto trace = tests::random_trace({.seed = seed, .events = 300});
    const auto rows = run(trace);
    const auto expected = slow_rows(trace);
    EXPECT_EQ(rows.size(), expected.size());
    for (const auto& [line, slow] : expected) {
      const SiteRow& row = row_of(rows, line);
      EXPECT_EQ(row.allocations, slow.allocations);
      EXPECT_EQ(row.bytes, slow.bytes);
      EXPECT_EQ(row.temporary, slow.temporary);
      EXPECT_EQ(row.temporary_bytes, slow.temporary_bytes);
      EXPECT_EQ(row.never_freed, slow.never_freed);
      EXPECT_EQ(row.never_freed_bytes, slow.never_freed_bytes);
      EXPECT_NEAR(row.byte_seconds, slow.byte_seconds, 1e-9);
      EXPECT_EQ(row.largest_bytes, slow.largest_bytes);
      EXPECT_EQ(row.commonest_size_bytes, slow.commonest_size_bytes);
      EXPECT_EQ(row.commonest_size_count, slow.commonest_size_count);
    }
  }
}

}  // namespace
}  // namespace plimsoll::analysis::sites
