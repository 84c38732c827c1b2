#include "attribution/torch_history.h"

#include <map>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/events.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::attribution {
namespace {

using model::Action;
using model::DeviceTrace;
using model::LifetimeFlags;
using model::Phase;
using model::Trace;
using tests::Reported;
using tests::TraceMaker;

constexpr model::Device kCpu{model::DeviceType::kCpu, -1};
constexpr model::Device kCuda{model::DeviceType::kCuda, 0};
constexpr std::uint64_t kBase = 0x7F0000000000;

// A run for which a recording has the tensors and the program's activity, and a history has each
// block. Times are in microseconds.
class TorchHistory : public testing::Test {
 protected:
  static constexpr std::int64_t kMicrosecond = 1'000;

  void activity(std::int64_t time, std::string_view layer, std::string_view op, Phase phase,
                std::uint32_t thread = 1) {
    activities_.push_back(
        {time * kMicrosecond, thread, recorded_.string(layer), recorded_.string(op), phase});
  }
  TraceMaker& recorded(std::int64_t time, model::Device device = kCuda) {
    return recorded_.on(device).at(time * kMicrosecond);
  }
  TraceMaker& history(std::int64_t time) { return history_.on(kCuda).at(time * kMicrosecond); }

  void join() {
    base::Progress progress;
    auto joined = join_torch_history(recorded_.finish(), history_.finish(), activities_,
                                     diagnostics_, progress);
    ASSERT_TRUE(joined.ok());
    trace_ = std::move(*joined);
  }
  const DeviceTrace& device(model::Device wanted = kCuda) const {
    return *std::ranges::find(trace_.devices, wanted, &DeviceTrace::device);
  }
  model::Event event(std::size_t number) const { return trace_.event(device(), number); }
  std::size_t lifetime(std::size_t number) const {
    return device().lifetimes.born_at(static_cast<std::uint32_t>(number));
  }
  std::string text(model::StringId id) const { return std::string(trace_.strings[id]); }
  std::string category(std::size_t number) const {
    return text(trace_.category(device(), lifetime(number)));
  }
  std::uint64_t counted(std::string_view name) const {
    for (const base::Diagnostic& each : diagnostics_.all()) {
      if (name == each.kind->name) return each.count;
    }
    return 0;
  }
  std::string example(std::string_view name) const {
    for (const base::Diagnostic& each : diagnostics_.all()) {
      if (name == each.kind->name) return each.first_example;
    }
    return {};
  }

  TraceMaker recorded_, history_;
  base::Column<readers::ThreadActivity> activities_;
  base::Diagnostics diagnostics_;
  Trace trace_;
};

TEST_F(TorchHistory, attributes_a_block_by_the_tensor_in_it) {
  history(100).alloc(kBase, 1000);
  const model::TensorId weight = recorded_.tensor("Net.fc.weight", "float32", "[250]");
  recorded(110).alloc_reported(kBase, 1000,
                               {.layer = "Net.fc",
                                .category = "parameter",
                                .phase = Phase::kOther,
                                .op = "aten::empty",
                                .tensor = weight});
  join();
  ASSERT_EQ(device().events.size(), 1u);
  EXPECT_EQ(category(0), "parameter");
  EXPECT_EQ(text(event(0).layer), "Net.fc");
  EXPECT_EQ(text(event(0).op), "aten::empty");
  EXPECT_EQ(text(trace_.tensors[device().lifetimes.tensor[lifetime(0)].index()].name),
            "Net.fc.weight");
  EXPECT_EQ(event(0).time_ns, 100'000);  // the allocator's own time
  EXPECT_EQ(counted("torch_history"), 1u);
  EXPECT_EQ(counted("history_unattributed"), 0u);
}

TEST_F(TorchHistory, distinguishes_successive_tensors_at_one_address) {
  history(100).alloc(kBase, 512);
  recorded(105).alloc_reported(kBase, 512, {.layer = "first", .category = "activation"});
  recorded(190).free_immediately(kBase, 512);
  history(195).free(kBase, 512);
  history(200).alloc(kBase, 512);
  recorded(205).alloc_reported(kBase, 512, {.layer = "second", .category = "temporary"});
  join();
  EXPECT_EQ(text(event(0).layer), "first");
  EXPECT_EQ(category(0), "activation");
  EXPECT_EQ(text(event(3).layer), "second");
  EXPECT_EQ(category(3), "temporary");
}

TEST_F(TorchHistory, ignores_tensors_that_are_later_or_larger_than_the_block) {
  history(100).alloc(kBase, 512).free(kBase, 512);
  recorded(150).alloc_reported(kBase, 512, {.category = "parameter"});
  history(200).alloc(kBase + 4096, 512);
  recorded(205).alloc_reported(kBase + 4096, 8192, {.category = "parameter"});
  join();
  EXPECT_EQ(category(0), "unknown");
  EXPECT_EQ(category(3), "unknown");
  EXPECT_EQ(counted("history_unattributed"), 2u);
}

TEST_F(TorchHistory, uses_the_category_of_highest_precedence_in_a_block) {
  history(100).alloc(kBase, 512);
  recorded(105).alloc_reported(kBase, 512, {.layer = "Net.fc", .category = "activation_gradient"});
  recorded(110).free_immediately(kBase, 512);
  recorded(120).alloc_reported(kBase, 512,
                               {.category = "gradient", .flags = LifetimeFlags::kAdopted});
  join();
  EXPECT_EQ(category(0), "gradient");
  EXPECT_EQ(text(event(0).layer), "Net.fc");
}

TEST_F(TorchHistory, attributes_the_rest_by_the_programs_activity) {
  activity(10, "Net.fc", "", Phase::kForward);
  activity(20, "Net.fc", "aten::mm", Phase::kForward);
  history(25).alloc(kBase, 512);        // within the operator
  history(27).alloc(kBase + 512, 512);  // outlives it
  history(28).free(kBase, 512);
  activity(30, "Net.fc", "", Phase::kForward);
  activity(40, "", "", Phase::kBackward, 2);
  history(45).alloc(kBase + 1024, 512);
  activity(50, "", "", Phase::kOther);
  history(55).alloc(kBase + 2048, 512);
  join();
  EXPECT_EQ(category(0), "temporary");
  EXPECT_TRUE(has(device().lifetimes.flags[lifetime(0)], LifetimeFlags::kTemporary));
  EXPECT_EQ(text(event(0).op), "aten::mm");
  EXPECT_EQ(text(event(0).layer), "Net.fc");
  EXPECT_EQ(category(1), "activation");
  EXPECT_TRUE(has(device().lifetimes.flags[lifetime(1)], LifetimeFlags::kSavedForBackward));
  EXPECT_EQ(category(4), "activation_gradient");
  EXPECT_EQ(event(4).phase, Phase::kBackward);
  EXPECT_EQ(category(5), "other");
  EXPECT_EQ(example("torch_history"),
            "cuda:0: 0 allocations known from their tensors, 4 from the time");
}

TEST_F(TorchHistory, leaves_memory_before_the_first_activity_unknown) {
  history(5).alloc(kBase, 512);
  activity(10, "Net", "", Phase::kForward);
  join();
  EXPECT_EQ(category(0), "unknown");
  EXPECT_EQ(text(event(0).layer), "");
  EXPECT_EQ(counted("history_unattributed"), 1u);
}

TEST_F(TorchHistory, orders_steps_and_events_by_time) {
  history(100).alloc(kBase, 512);
  recorded(150, kCpu).step(1);
  history(200).alloc(kBase + 512, 512);
  recorded(250, kCpu).alloc(64, 100).at(260'000).step(2);
  history(300).alloc(kBase + 1024, 512);
  join();
  EXPECT_THAT(device().mark_events.span(), testing::ElementsAre(1u, 2u));
  EXPECT_THAT(device(kCpu).mark_events.span(), testing::ElementsAre(0u, 1u));
}

TEST_F(TorchHistory, orders_driver_readings_by_time_too) {
  history(100).alloc(kBase, 512);
  recorded(150).builder().add_reading({.device = kCuda, .time_ns = 150'000});
  recorded(160, kCpu).step(1);
  history(200).alloc(kBase + 512, 512);
  recorded(250).builder().add_reading({.device = kCuda, .time_ns = 250'000});
  recorded(260, kCpu).alloc(64, 100).builder().add_reading({.device = kCpu, .time_ns = 270'000});
  join();
  ASSERT_EQ(trace_.readings.size(), 3u);
  EXPECT_EQ(trace_.readings[0].events_before, 1u);
  EXPECT_EQ(trace_.readings[1].events_before, 2u);
  EXPECT_EQ(trace_.readings[2].events_before, 1u);
  EXPECT_THAT(device().mark_events.span(), testing::ElementsAre(1u));
}

TEST_F(TorchHistory, begins_with_memory_that_was_live_before_it) {
  recorded(10).alloc_reported(kBase, 1000,
                              {.category = "parameter", .flags = LifetimeFlags::kAdopted});
  recorded(20).step(1);
  history(100).alloc(kBase + 4096, 512);
  history(110).event(Action::kFreeRequested, kBase + 8192, 512);
  history(120).event(Action::kFreeCompleted, kBase + 8192, 512);
  history_.segment(kBase, 1 << 20,
                   {TraceMaker::block(kBase, 1024, 1000),
                    TraceMaker::block(kBase + 1024, 3072, 0, model::BlockState::kInactive),
                    TraceMaker::block(kBase + 4096, 512, 512)});
  join();
  ASSERT_EQ(device().events.size(), 5u);
  EXPECT_EQ(device().lifetimes.baseline_count, 0u);
  std::map<std::string, std::uint64_t> adopted;
  for (const std::size_t number : {0u, 1u}) {
    EXPECT_TRUE(has(device().lifetimes.flags[lifetime(number)], LifetimeFlags::kAdopted));
    adopted[category(number)] += event(number).size_bytes;
  }
  EXPECT_EQ(adopted, (std::map<std::string, std::uint64_t>{{"parameter", 1000}, {"unknown", 512}}));
  EXPECT_THAT(device().mark_events.span(), testing::ElementsAre(2u));
  EXPECT_TRUE(device().has_final_state);
}

TEST_F(TorchHistory, begins_a_truncated_history_where_it_starts) {
  recorded(20).step(1);
  history(100).event(Action::kFreeRequested, kBase, 512);
  history(101).event(Action::kFreeCompleted, kBase, 512);
  history_.builder().mark_truncated(kCuda);
  join();
  EXPECT_EQ(device().history, model::History::kTruncated);
  EXPECT_THAT(device().mark_events.span(), testing::ElementsAre(0u));
  EXPECT_EQ(device().events.size(), 3u);
}

TEST_F(TorchHistory, leaves_other_devices_unchanged) {
  recorded(100, kCpu).alloc_reported(64, 100, {.layer = "Net", .category = "input"});
  recorded(110, {model::DeviceType::kCuda, 1}).alloc_reported(kBase, 7, {.category = "buffer"});
  history(120).alloc(kBase, 512);
  join();
  ASSERT_EQ(trace_.devices.size(), 3u);
  const auto& cpu = device(kCpu);
  ASSERT_EQ(cpu.events.size(), 1u);
  EXPECT_EQ(text(trace_.category(cpu, 0)), "input");
  const auto& other = device({model::DeviceType::kCuda, 1});
  ASSERT_EQ(other.events.size(), 1u);
  EXPECT_EQ(text(trace_.category(other, 0)), "buffer");
}

TEST_F(TorchHistory, uses_no_tensors_if_torch_wrote_no_times) {
  history_.without_times();
  history(100).alloc(kBase, 512);
  recorded(105).alloc_reported(kBase, 512, {.category = "parameter"});
  join();
  EXPECT_EQ(category(0), "unknown");
}

TEST_F(TorchHistory, keeps_what_a_failure_found_on_another_device) {
  history(100).alloc(kBase, 1000);
  model::Event failed;
  failed.action = Action::kOom;
  failed.size_bytes = 64;
  failed.shortage = recorded_.builder().add_shortage({.limit_bytes = 500, .total_bytes = 800});
  recorded(110, kCpu).event(failed);
  join();
  const model::Event there = trace_.event(device(kCpu), 0);
  ASSERT_LT(there.shortage.index(), trace_.shortages.size());
  EXPECT_EQ(trace_.shortages[there.shortage.index()].limit_bytes, 500u);
  EXPECT_EQ(trace_.shortages[there.shortage.index()].total_bytes, 800u);
}

}  // namespace
}  // namespace plimsoll::attribution
