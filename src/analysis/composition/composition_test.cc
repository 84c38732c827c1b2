#include "analysis/composition/composition.h"

#include <limits>
#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/random_trace.h"
#include "tests/support/run_pass.h"
#include "tests/support/timeline_pass.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::composition {
namespace {

using model::Action;
using model::Device;
using model::DeviceType;
using report::GroupRow;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::TraceMaker;
using FinalState = tests::RandomTraceOptions::FinalState;

constexpr Device kFirst{DeviceType::kCuda, 0};
constexpr Device kSecond{DeviceType::kCuda, 1};

Result<report::Report> try_run(const model::Trace& trace, const Options& options = {}) {
  return tests::try_passes(trace, tests::passes(tests::timeline_pass(), make()), options);
}

report::Tables run(const model::Trace& trace, const Options& options = {}) {
  return tests::run_passes(trace, tests::passes(tests::timeline_pass(), make()), options).tables;
}

Options at(TimePoint point) {
  Options options;
  options.point = point;
  return options;
}

TimePoint at_event(std::uint64_t event) {
  return {.kind = TimePoint::Kind::kEvent, .event = event};
}

std::vector<std::string> keys(const std::vector<GroupRow>& rows) {
  std::vector<std::string> keys;
  for (const GroupRow& row : rows) keys.push_back(row.key + " = " + std::to_string(row.bytes));
  return keys;
}

std::uint64_t bytes(const std::vector<GroupRow>& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const GroupRow& row) { return sum + row.bytes; });
}

// Two lines, an operator, a failed request; everything live at the end is in segments.
class SmallTrace {
 public:
  SmallTrace() {
    const auto embed = maker.stack({{"??", 0, "at::_ops::embedding::call(at::Tensor const&)"},
                                    {"/home/u/model.py", 10, "forward"}});
    const auto loss = maker.stack({{"/home/u/train.py", 5, "main"}});
    maker
        .alloc(0x1000, 3000, embed)      // 0
        .alloc(0x2000, 2000, loss)       // 1
        .alloc(0x3000, 1000, embed)      // 2: the peak
        .event(Action::kOom, 77, 99999)  // 3
        .free(0x2000, 2000, loss)        // 4, 5
        .free(0x9000, 500, loss);        // 6, 7: born before the recording
    maker.segment(0x0, 1 << 20,
                  {TraceMaker::block(0x1000, 3072, 3000), TraceMaker::block(0x3000, 1024, 1000),
                   TraceMaker::block(0x5000, 512, 64)});
  }
  TraceMaker maker;
};

TEST(Composition, tables_describe_the_peak_by_default) {
  SmallTrace small;
  const auto tables = run(small.maker.finish());
  ASSERT_EQ(tables.points.size(), 1u);
  EXPECT_EQ(tables.points[0].name, "peak");
  EXPECT_EQ(tables.points[0].event, 2u);
  EXPECT_EQ(tables.points[0].live_bytes, 6564u);
  EXPECT_EQ(tables.points[0].live_count, 5u);
  EXPECT_EQ(tables.points[0].unexplained_bytes, 0);
  EXPECT_THAT(keys(tables.by_line), ElementsAre("/home/u/model.py:10 (forward) = 4000",
                                                "/home/u/train.py:5 (main) = 2000",
                                                "[allocated before recording] = 564"));
  EXPECT_EQ(tables.by_line[0].count, 2u);
  EXPECT_EQ(tables.by_line[0].largest_bytes, 3000u);
  EXPECT_DOUBLE_EQ(tables.by_line[0].share, 4000.0 / 6564.0);
  EXPECT_THAT(keys(tables.by_operator), ElementsAre("aten::embedding = 4000", "[unknown] = 2564"));
  EXPECT_THAT(keys(tables.by_size),
              ElementsAre("2 KiB \u2013 4 KiB = 3000", "1 KiB \u2013 2 KiB = 2000",
                          "512 B \u2013 1 KiB = 1000", "256 B \u2013 512 B = 500",
                          "64 B \u2013 128 B = 64"));
  EXPECT_THAT(keys(tables.by_stream), ElementsAre("stream 0 = 6564"));
  EXPECT_THAT(tables.by_stack[0].stack,
              ElementsAre("??:0 at::_ops::embedding::call(at::Tensor const&)",
                          "/home/u/model.py:10 forward"));
  EXPECT_THAT(tables.by_category, IsEmpty());
  EXPECT_THAT(tables.by_layer, IsEmpty());
  EXPECT_THAT(tables.by_pool, IsEmpty());
}

TEST(Composition, omitted_rows_become_one_so_that_tables_still_sum) {
  SmallTrace small;
  Options options;
  options.top = 1;
  const auto tables = run(small.maker.finish(), options);
  EXPECT_THAT(keys(tables.by_line),
              ElementsAre("/home/u/model.py:10 (forward) = 4000", "[other: 2 groups] = 2564"));
  EXPECT_EQ(tables.by_line[1].largest_bytes, 2000u);
  EXPECT_EQ(tables.by_line[1].count, 3u);
}

TEST(Composition, groups_of_equal_bytes_are_kept_by_key) {
  TraceMaker maker;
  maker.alloc(1, 10, maker.stack({{"/c.py", 1, "f"}}));
  maker.alloc(2, 10, maker.stack({{"/b.py", 1, "f"}}));
  maker.alloc(3, 10, maker.stack({{"/a.py", 1, "f"}}));
  Options options;
  options.top = 2;
  EXPECT_THAT(keys(run(maker.finish(), options).by_line),
              ElementsAre("/a.py:1 (f) = 10", "/b.py:1 (f) = 10", "/c.py:1 (f) = 10"));
}

TEST(Composition, the_point_in_time_can_be_chosen) {
  SmallTrace small;
  const auto trace = small.maker.finish();
  const auto point = [&](TimePoint wanted) { return run(trace, at(wanted)).points.at(0); };
  EXPECT_EQ(point({.kind = TimePoint::Kind::kStart}).live_bytes, 564u);
  EXPECT_FALSE(point({.kind = TimePoint::Kind::kStart}).event.has_value());
  EXPECT_EQ(point({.kind = TimePoint::Kind::kEnd}).live_bytes, 4064u);
  EXPECT_EQ(point({.kind = TimePoint::Kind::kOom}).event, 3u);
  EXPECT_EQ(point({.kind = TimePoint::Kind::kOom}).live_bytes, 6564u);
  EXPECT_EQ(point(at_event(1)).live_bytes, 5564u);
  EXPECT_EQ(point(at_event(4)).live_bytes, 6564u);  // a requested free is not yet completed
  EXPECT_EQ(point(at_event(5)).live_bytes, 4564u);
  EXPECT_EQ(point({.kind = TimePoint::Kind::kTime, .time_ns = 1'001'999}).event, 1u);
  EXPECT_EQ(point({.kind = TimePoint::Kind::kTime, .time_ns = 2'000, .is_relative = true}).event,
            2u);
}

TEST(Composition, a_step_has_its_own_peak) {
  TraceMaker maker;
  maker.alloc(1, 50).step(1).alloc(2, 10).free(2, 10).alloc(3, 5).step(2).free(1, 50).step(3);
  const auto trace = maker.finish();
  const auto at_step = [](std::uint64_t number) {
    return at({.kind = TimePoint::Kind::kStep, .nth = number});
  };
  const auto point = run(trace, at_step(2)).points.at(0);
  EXPECT_EQ(point.name, "step:2");
  EXPECT_EQ(point.event, 1u);
  EXPECT_EQ(point.live_bytes, 60u);
  EXPECT_EQ(run(trace, at_step(3)).points.at(0).live_bytes, 55u) << "live when it begins";
}

TEST(Composition, points_beyond_the_recording_are_errors_that_name_the_range) {
  SmallTrace small;
  const auto trace = small.maker.finish();
  const auto message = [&](TimePoint wanted) {
    const auto report = try_run(trace, at(wanted));
    EXPECT_FALSE(report.ok());
    if (report.ok()) return std::string();
    EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
    return report.error().message;
  };
  EXPECT_EQ(message(at_event(8)), "event 8 is outside the recording: cuda:0 has events 0 to 7");
  EXPECT_THAT(
      message({.kind = TimePoint::Kind::kTime, .time_ns = 999'999}),
      HasSubstr("time 999999 ns is outside the recording: valid are 1000000 ns to 1007000 ns"));
  EXPECT_THAT(message({.kind = TimePoint::Kind::kTime, .time_ns = -1, .is_relative = true}),
              HasSubstr("outside the recording"));
}

TEST(Composition, a_time_beyond_the_recording_is_reported_in_the_given_unit) {
  SmallTrace small;
  const auto trace = small.maker.finish();
  const auto message = [&](std::int64_t time_ns, std::int64_t unit_ns) {
    return try_run(trace, at({.kind = TimePoint::Kind::kTime,
                              .time_ns = time_ns,
                              .is_relative = true,
                              .unit_ns = unit_ns}))
        .error()
        .message;
  };
  EXPECT_EQ(
      message(1'000'000'000'000, 1'000'000'000),
      "time 1000 s is outside the recording: its last event is 0.000007 s after the first one");
  EXPECT_EQ(message(1'500'000, 1'000'000),
            "time 1.5 ms is outside the recording: its last event is 0.007 ms after the first one");
  EXPECT_EQ(message(8'000, 1'000),
            "time 8 us is outside the recording: its last event is 7 us after the first one");
}

TEST(Composition, of_several_failures_the_last_or_the_requested_one_is_shown) {
  TraceMaker maker;
  maker.alloc(1, 10);
  maker.event(model::Action::kOom, 0, 100);
  maker.alloc(2, 20);
  maker.event(model::Action::kOom, 0, 200);
  const auto trace = maker.finish();
  const auto point = [&](std::uint64_t nth) {
    return run(trace, at({.kind = TimePoint::Kind::kOom, .nth = nth})).points.at(0);
  };
  EXPECT_EQ(point(0).name, "oom:2");
  EXPECT_EQ(point(0).live_bytes, 30u);
  EXPECT_EQ(point(1).name, "oom:1");
  EXPECT_EQ(point(1).live_bytes, 10u);
  const auto third = try_run(trace, at({.kind = TimePoint::Kind::kOom, .nth = 3}));
  ASSERT_FALSE(third.ok());
  EXPECT_THAT(third.error().message, HasSubstr("oom:1 to oom:2"));
}

TEST(Composition, a_failure_that_ended_the_program_replaces_the_peak) {
  const auto point = [](bool fails) {
    TraceMaker maker;
    maker.alloc(1, 10).alloc(2, 20).free_immediately(2, 20);
    if (fails) maker.event(model::Action::kOom, 0, 100);
    const auto trace = maker.finish();
    return run(trace, at({.kind = TimePoint::Kind::kFailureOrPeak})).points.at(0);
  };
  EXPECT_EQ(point(true).name, "oom");
  EXPECT_EQ(point(true).live_bytes, 10u);
  EXPECT_EQ(point(false).name, "peak");
  EXPECT_EQ(point(false).live_bytes, 30u);
}

TEST(Composition, a_failure_after_which_the_program_went_on_does_not_replace_the_peak) {
  TraceMaker maker;
  maker.alloc(1, 10).alloc(2, 20).free_immediately(2, 20).event(model::Action::kOom, 0, 100);
  for (std::uint64_t i = 0; i < 1'001; ++i) maker.alloc(3, 5).free_immediately(3, 5);
  const auto trace = maker.finish();
  const auto point = run(trace, at({.kind = TimePoint::Kind::kFailureOrPeak})).points.at(0);
  EXPECT_EQ(point.name, "peak");
  EXPECT_EQ(point.live_bytes, 30u);
}

TEST(Composition, a_line_is_divided_by_the_lines_inside_the_packages_that_it_calls) {
  TraceMaker maker;
  const tests::FrameText user{"/home/u/train.py", 5, "main"};
  const tests::FrameText torch{"/x/site-packages/torch/nn/modules/linear.py", 125, "forward"};
  const auto model =
      maker.stack({torch, {"/x/site-packages/transformers/llama.py", 175, "forward"}, user});
  const auto through = maker.stack({torch, user});
  const auto direct = maker.stack({user});
  const auto of_torch = maker.stack({torch, {"/home/u/other.py", 9, "g"}});
  const auto other = maker.stack({{"/home/u/other.py", 7, "f"}});
  maker.alloc(1, 100, model).alloc(2, 200, model).alloc(3, 50, through).alloc(4, 20, direct);
  maker.alloc(5, 1, other).alloc(6, 2, of_torch);
  const auto tables = run(maker.finish());
  ASSERT_EQ(tables.by_line.size(), 3u);
  std::vector<std::string> inside;
  for (const report::InnerLineRow& row : tables.by_line[0].inside) {
    inside.push_back(row.line + " = " + std::to_string(row.bytes));
  }
  EXPECT_THAT(inside, ElementsAre("transformers/llama.py:175 (forward) = 300",
                                  "torch/nn/modules/linear.py:125 (forward) = 50",
                                  "[the line itself] = 20"));
  EXPECT_EQ(tables.by_line[0].inside[0].count, 2u);
  EXPECT_TRUE(tables.by_line[1].inside.empty()) << "torch alone explains nothing";
  EXPECT_TRUE(tables.by_line[2].inside.empty());
}

TEST(Composition, questions_without_an_answer_state_the_reason) {
  TraceMaker maker;
  maker.without_times().alloc(1, 10);
  const auto trace = maker.finish();
  const auto time = try_run(trace, at({.kind = TimePoint::Kind::kTime}));
  ASSERT_FALSE(time.ok());
  EXPECT_THAT(time.error().message, HasSubstr("have no times"));
  const auto oom = try_run(trace, at({.kind = TimePoint::Kind::kOom}));
  ASSERT_FALSE(oom.ok());
  EXPECT_THAT(oom.error().message, HasSubstr("no allocation failed"));
  Options options;
  options.device = kSecond;
  const auto device = try_run(trace, options);
  ASSERT_FALSE(device.ok());
  EXPECT_THAT(device.error().message, HasSubstr("cuda:1; it has cuda:0"));
}

TEST(Composition, a_device_without_events_shows_its_final_state) {
  TraceMaker maker;
  const auto stack = maker.stack({{"/a.py", 1, "f"}});
  maker.segment(0, 4096,
                {TraceMaker::block(0, 512, 100, model::BlockState::kActiveAllocated, stack),
                 TraceMaker::block(512, 512, 30, model::BlockState::kActivePendingFree),
                 TraceMaker::block(1024, 512, 7, model::BlockState::kInactive)},
                maker.builder().pool({0, 1}));
  const auto tables = run(maker.finish());
  EXPECT_EQ(tables.points.at(0).live_bytes, 130u);
  EXPECT_THAT(keys(tables.by_line), ElementsAre("/a.py:1 (f) = 100", "[no stack recorded] = 30"));
  EXPECT_THAT(keys(tables.by_pool), ElementsAre("pool (0, 1) = 130"));
}

TEST(Composition, one_device_can_be_selected) {
  TraceMaker maker;
  maker.on(kFirst).alloc(1, 10).on(kSecond).alloc(1, 20).alloc(2, 5);
  const auto trace = maker.finish();
  EXPECT_EQ(run(trace).points.size(), 2u);
  Options options;
  options.device = kSecond;
  const auto tables = run(trace, options);
  ASSERT_EQ(tables.points.size(), 1u);
  EXPECT_EQ(tables.points[0].device, 1);
  EXPECT_EQ(bytes(tables.by_line), 25u);
  // An event number that exists on only one device.
  const auto longer = run(trace, at(at_event(1)));
  ASSERT_EQ(longer.points.size(), 1u);
  EXPECT_EQ(longer.points[0].device, 1);
}

TEST(Composition, categories_layers_pools_and_operators_of_the_file_are_used) {
  TraceMaker maker;
  model::Event event;
  event.action = Action::kAlloc;
  event.address = 1;
  event.size_bytes = 100;
  event.category = maker.string("parameter");
  event.layer = maker.string("model.0");
  event.op = maker.string("aten::empty");
  event.pool = maker.builder().pool({0, 0});
  maker.event(event).alloc(2, 7);
  const auto tables = run(maker.finish());
  EXPECT_THAT(keys(tables.by_category), ElementsAre("parameter = 100", "unknown = 7"));
  EXPECT_THAT(keys(tables.by_layer), ElementsAre("model.0 = 100", "[no layer] = 7"));
  EXPECT_THAT(keys(tables.by_operator), ElementsAre("aten::empty = 100", "[unknown] = 7"));
}

TEST(Composition, without_phases_a_point_has_the_innermost_annotation) {
  TraceMaker maker;
  maker.annotation("ProfilerStep#1", 0, 100);
  maker.annotation("Optimizer.step#Adam.step", 10, 50);
  maker.annotation("later", 60, 70);
  maker.at(5).alloc(1, 100).at(20).alloc(2, 100).at(55).alloc(3, 100);
  const auto trace = maker.finish();
  const auto region = [&](int at_index) {
    return run(trace, at(at_event(at_index))).points[0].region;
  };
  EXPECT_EQ(region(0), "ProfilerStep#1");
  EXPECT_EQ(region(1), "Optimizer.step#Adam.step");
  EXPECT_EQ(region(2), "ProfilerStep#1");
}

// Computes the live bytes after `event`. In random traces an address is used only once, so it
// identifies an allocation.
std::uint64_t replayed_bytes(const model::Trace& trace, std::int64_t event) {
  struct Life {
    std::uint64_t size_bytes;
    std::int64_t born;
    std::int64_t died;
  };
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  std::map<std::uint64_t, Life> lives;
  for (std::size_t row = 0; row < trace.event_count(); ++row) {
    const auto e = trace.event(trace.devices.at(0), row);
    const auto now = static_cast<std::int64_t>(row);
    const Life unborn{e.size_bytes, -1, kNever};
    if (e.action == Action::kAlloc) lives[e.address] = Life{e.size_bytes, now, kNever};
    if (e.action == Action::kFreeRequested) lives.emplace(e.address, unborn);
    if (e.action == Action::kFreeCompleted)
      lives.emplace(e.address, unborn).first->second.died = now;
  }
  for (const auto& block : trace.blocks) {
    if (block.state == model::BlockState::kInactive) continue;
    lives.emplace(block.address, Life{block.requested_size, -1, kNever});
  }
  std::uint64_t bytes = 0;
  for (const auto& [address, life] : lives) {
    if (life.born <= event && event < life.died) bytes += life.size_bytes;
  }
  return bytes;
}

TEST(Composition, libraries_are_reported_only_for_recordings_of_cuda_programs) {
  for (const bool is_cuda_program : {false, true}) {
    TraceMaker maker;
    if (is_cuda_program) maker.builder().native_lines_known();
    const auto one = maker.stack({{"libnccl.so.2", 0, "a"}, {"solver", 0, "main"}});
    const auto other = maker.stack({{"libnccl.so.2", 0, "b"}});
    maker.alloc(1, 100, one);
    maker.alloc(2, 20, other);
    maker.alloc(3, 7, maker.stack({{"solver", 0, "main"}}));
    maker.alloc(4, 1);
    const auto rows = keys(run(maker.finish()).by_library);
    if (is_cuda_program) {
      EXPECT_THAT(rows, ElementsAre("libnccl.so.2 = 120", "solver = 7", "[unknown] = 1"));
    } else {
      EXPECT_THAT(rows, IsEmpty());
    }
  }
}

TEST(Composition, rows_sum_to_the_live_bytes_of_a_replay) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const auto final_state = seed % 3 == 0 ? FinalState::kNone : FinalState::kConsistent;
    const auto trace =
        tests::random_trace({.seed = seed, .events = 120, .final_state = final_state});
    for (const std::uint32_t event : {0u, 17u, 63u, 100u, 119u}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " event " + std::to_string(event));
      Options options = at(at_event(event));
      options.top = 3;
      const auto tables = run(trace, options);
      const auto& point = tables.points.at(0);
      EXPECT_EQ(point.live_bytes, replayed_bytes(trace, event));
      for (const auto* table : {&tables.by_line, &tables.by_stack, &tables.by_size,
                                &tables.by_stream, &tables.by_operator}) {
        EXPECT_EQ(bytes(*table), point.live_bytes);
      }
      if (final_state == FinalState::kConsistent) {
        EXPECT_EQ(point.unexplained_bytes, 0);
      }
    }
  }
}

TEST(Composition, inconsistent_files_state_how_much_is_unexplained) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const auto trace = tests::random_trace({.seed = seed, .final_state = FinalState::kUnrelated});
    const auto report = tests::run_passes(trace, tests::passes(tests::timeline_pass(), make()),
                                          at({.kind = TimePoint::Kind::kEnd}));
    const auto& point = report.tables.points.at(0);
    EXPECT_EQ(static_cast<std::int64_t>(point.live_bytes) + point.unexplained_bytes,
              report.devices[0].requested_active.end_bytes);
  }
}

TEST(Composition, memory_is_grouped_by_whether_it_is_used_again) {
  TraceMaker maker;
  maker.alloc_reported(1, 100, {.use = {.unused_from = 1}})
      .alloc_reported(2, 200, {.use = {.unused_from = 9}})
      .alloc_reported(3, 300, {})
      .alloc_reported(4, 400, {.category = "parameter", .use = {.unused_from = 1}});
  const auto tables = run(maker.finish());
  EXPECT_THAT(keys(tables.by_use), ElementsAre("parameter = 400", "unknown = 300",
                                               "used again = 200", "not used again = 100"));
  EXPECT_EQ(tables.points.at(0).unused_at_end_bytes, 100);
}

}  // namespace
}  // namespace plimsoll::analysis::composition
