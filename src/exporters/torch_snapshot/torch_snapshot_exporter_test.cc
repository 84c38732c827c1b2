#include "exporters/torch_snapshot/torch_snapshot_exporter.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/conformance/exporter_suite.h"
#include "tests/support/pickle_text.h"

namespace plimsoll::tests {
namespace {

std::string pickle_flaw(std::string_view text) {
  try {
    PickleText::of(text);
    return {};
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(TorchSnapshot, ExporterSuite,
                         testing::Values(ExporterCase{exporters::torch_snapshot::make,
                                                      pickle_flaw}));

std::string snapshot_text(TraceMaker& maker) {
  return PickleText::of(exported(*exporters::torch_snapshot::make(), maker.finish()));
}

// How the snapshot of a trace without segments of cuda:0 ends.
constexpr const char* kWithoutSegments = ", 'plimsoll_without_segments': ['cuda:0']}";

TEST(TorchSnapshotExporter, an_immediate_free_is_two_events) {
  TraceMaker at_once, apart;
  at_once.without_times().alloc(0x1000, 100).event(model::Action::kFree, 0x1000, 100);
  apart.without_times().alloc(0x1000, 100).free(0x1000, 100);
  EXPECT_EQ(snapshot_text(at_once), snapshot_text(apart));
}

TEST(TorchSnapshotExporter, events_have_the_keys_that_the_model_has) {
  TraceMaker maker;
  model::Event event;
  event.action = model::Action::kAlloc;
  event.address = 0x1000;
  event.size_bytes = 100;
  event.stream = maker.builder().stream(0x7000);
  event.stack = maker.stack({{"a.py", 7, "f"}});
  event.compile_context = maker.string("N/A");
  event.user_metadata = maker.string("note");
  event.category = maker.string("gradient");
  event.pool = maker.builder().pool({0, 1});
  maker.event(event).without_times().free(0x1000, 100);
  EXPECT_EQ(snapshot_text(maker),
            "{'segments': [], 'device_traces': [["
            "{'action': 'alloc', 'addr': 4096, 'size': 100, 'stream': 28672, 'time_us': 1000, "
            "'compile_context': 'N/A', 'user_metadata': 'note', 'category': 'gradient', "
            "'pool_id': (0, 1), 'frames': [{'filename': 'a.py', 'name': 'f', 'line': 7}]}, "
            "{'action': 'free_requested', 'addr': 4096, 'size': 100, 'stream': 0}, "
            "{'action': 'free_completed', 'addr': 4096, 'size': 100, 'stream': 0}]]" +
                std::string(kWithoutSegments));
}

TEST(TorchSnapshotExporter, an_oom_has_the_free_bytes_and_an_empty_stack_is_not_no_stack) {
  TraceMaker maker;
  maker.without_times().event(model::Action::kOom, 5, 512, model::kEmptyStack);
  EXPECT_EQ(snapshot_text(maker),
            "{'segments': [], 'device_traces': [["
            "{'action': 'oom', 'device_free': 5, 'size': 512, 'stream': 0, 'frames': []}]]" +
                std::string(kWithoutSegments));
}

TEST(TorchSnapshotExporter, segments_contain_their_blocks) {
  TraceMaker maker;
  const auto stack = maker.stack({{"a.py", 7, "f"}});
  const auto pool = maker.builder().pool({0, 0});
  using model::BlockState;
  maker.segment(4096, 2048,
                {TraceMaker::block(4096, 512, 500, BlockState::kActiveAllocated, stack),
                 TraceMaker::block(4608, 512, 1, BlockState::kActivePendingFree),
                 TraceMaker::block(5120, 1024, 0, BlockState::kInactive)},
                pool);
  EXPECT_EQ(snapshot_text(maker),
            "{'segments': [{'device': 0, 'address': 4096, 'total_size': 2048, "
            "'allocated_size': 0, 'active_size': 0, 'requested_size': 0, 'stream': 0, "
            "'segment_pool_id': (0, 0), 'is_expandable': False, 'blocks': ["
            "{'address': 4096, 'size': 512, 'requested_size': 500, 'state': 'active_allocated', "
            "'frames': [{'filename': 'a.py', 'name': 'f', 'line': 7}]}, "
            "{'address': 4608, 'size': 512, 'requested_size': 1, 'state': "
            "'active_pending_free'}, "
            "{'address': 5120, 'size': 1024, 'requested_size': 0, 'state': 'inactive'}]}], "
            "'device_traces': [[]]}");
}

TEST(TorchSnapshotExporter, settings_are_nested_again) {
  TraceMaker maker;
  maker.builder().add_setting({"max_split_size", std::int64_t{-1}});
  maker.builder().add_setting({"roundup.1", std::int64_t{0}});
  maker.builder().add_setting({"expandable_segments", false});
  maker.builder().add_setting({"roundup.2", 0.5});
  maker.builder().add_setting({"PYTORCH_CUDA_ALLOC_CONF", std::string("a:b")});
  EXPECT_EQ(snapshot_text(maker),
            "{'segments': [], 'device_traces': [], 'allocator_settings': {'max_split_size': -1, "
            "'roundup': {'1': 0, '2': 0.500000}, 'expandable_segments': False, "
            "'PYTORCH_CUDA_ALLOC_CONF': 'a:b'}}");
}

TEST(TorchSnapshotExporter, annotations_become_stages_in_the_order_of_time) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCuda, 0});
  maker.annotation("outer", 1'000, 9'000).annotation("inner", 2'000, 3'000);
  maker.annotation("early", model::kNoTime, 500).annotation("late", 10'000, model::kNoTime);
  const auto entry = [](const char* stage, const char* name, int time_us) {
    return std::string("{'stage': '") + stage + "', 'name': '" + name +
           "', 'device': 0, 'time_us': " + std::to_string(time_us) + "}";
  };
  EXPECT_EQ(snapshot_text(maker),
            "{'segments': [], 'device_traces': [[]], 'external_annotations': [" +
                entry("END", "early", 0) + ", " + entry("START", "outer", 1) + ", " +
                entry("START", "inner", 2) + ", " + entry("END", "inner", 3) + ", " +
                entry("END", "outer", 9) + ", " + entry("START", "late", 10) + "]" +
                kWithoutSegments);
}

TEST(TorchSnapshotExporter, devices_are_at_their_ordinal_and_the_cpu_comes_last) {
  TraceMaker maker;
  maker.without_times();
  maker.on({model::DeviceType::kCpu, -1}).event(model::Action::kSnapshot, 0, 1);
  maker.on({model::DeviceType::kCuda, 2}).event(model::Action::kSnapshot, 0, 2);
  maker.on({model::DeviceType::kHip, 2}).event(model::Action::kSnapshot, 0, 3);
  maker.on({model::DeviceType::kXpu, 2'000'000'000}).event(model::Action::kSnapshot, 0, 4);
  const auto event = [](int size) {
    return "[{'action': 'snapshot', 'addr': 0, 'size': " + std::to_string(size) + ", 'stream': 0}]";
  };
  EXPECT_EQ(snapshot_text(maker),
            "{'segments': [], 'device_traces': [[], [], " + event(2) + ", " + event(3) + ", " +
                event(4) + ", " + event(1) +
                "], 'plimsoll_devices': ['cuda:0', 'cuda:1', 'cuda:2', 'hip:2', "
                "'xpu:2000000000', 'cpu'], 'plimsoll_without_segments': ['cuda:2', 'hip:2', "
                "'xpu:2000000000', 'cpu']}");
}

}  // namespace
}  // namespace plimsoll::tests
