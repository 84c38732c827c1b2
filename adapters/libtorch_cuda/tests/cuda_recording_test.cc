// Scripted streams of events, in the order in which torch's allocator reports them and updates its
// gauges, compared with the final state of the recorder.
#include "cuda_recording.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "fake_recorder.h"
#include "model_allocator.h"

namespace plimsoll::libtorch_cuda {
namespace {

int g_descriptions = 0;

plimsoll_context* describe_and_count(plimsoll_context* before) {
  ++g_descriptions;
  plimsoll_context* context = FakeRecorder::context();
  *before = *context;
  return context;
}

// A device of the model allocator, connected to the recording as torch connects its own.
class Device {
 public:
  Device(CudaRecording& recording, int ordinal, const HeapSettings& settings = {})
      : settings_(settings),
        recording_(recording),
        ordinal_(ordinal),
        model_(settings, [this](const ModelEvent& event) { emit(event); }) {}

  std::uint64_t alloc(std::uint64_t bytes, std::uint64_t stream = 0, HeapPool pool = {}) {
    const std::uint64_t address = model_.alloc(bytes, stream, pool);
    sizes_[address] = size_at(address);
    allocated += sizes_[address];
    if (has_gauges) recording_.gauge_moved(Gauge::kAllocated, static_cast<std::int64_t>(allocated));
    return address;
  }
  void request_free(std::uint64_t address) {
    allocated -= sizes_[address];
    if (has_gauges) recording_.gauge_moved(Gauge::kAllocated, static_cast<std::int64_t>(allocated));
    model_.request_free(address);
  }
  void free(std::uint64_t address) {
    request_free(address);
    model_.complete_free(address);
  }
  ModelAllocator& model() { return model_; }

  // The result of torch.cuda.memory._snapshot(), including its snapshot event.
  SeenDevice snapshot() {
    SeenDevice seen{.settings = settings_, .segments = {}};
    for (const ModelSegment& segment : model_.segments) {
      SeenSegment reported{.address = segment.address,
                           .size_bytes = 0,
                           .stream = segment.stream,
                           .pool = segment.pool,
                           .is_expandable = segment.is_expandable,
                           .blocks = {}};
      for (const ModelBlock& block : segment.blocks) {
        reported.size_bytes += block.size;
        reported.blocks.push_back({block.address, block.size, block.requested, block.state});
      }
      seen.segments.push_back(reported);
    }
    recording_.begin_snapshot();
    for (int i = 0; i <= ordinal_; ++i) recording_.handle(0, {.action = Action::kSnapshot});
    recording_.end_snapshot();
    return seen;
  }
  void seed() { recording_.tracker(ordinal_)->seed(snapshot()); }

  std::uint64_t allocated = 0;
  std::uint64_t reserved = 0;
  bool has_gauges = true;
  Library library = Library::kNone;  // the library that allocates

 private:
  std::uint64_t size_at(std::uint64_t address) const {
    for (const ModelSegment& segment : model_.segments) {
      for (const ModelBlock& block : segment.blocks) {
        if (block.address == address) return block.size;
      }
    }
    return 0;
  }
  void emit(const ModelEvent& event) {
    AllocatorEvent reported{.action = Action::kAlloc,
                            .address = event.address,
                            .size_bytes = event.bytes,
                            .stream = event.stream,
                            .pool = event.pool,
                            .library = library};
    bool is_release = false;
    switch (event.what) {
      case ModelEvent::What::kAlloc:
        break;
      case ModelEvent::What::kFreeRequested:
        reported.action = Action::kFreeRequested;
        break;
      case ModelEvent::What::kFreeCompleted:
        reported.action = Action::kFreeCompleted;
        break;
      case ModelEvent::What::kSegment:
        constexpr Action kActions[] = {Action::kSegmentAlloc, Action::kSegmentFree,
                                       Action::kSegmentMap, Action::kSegmentUnmap};
        reported.action = kActions[event.action];
        is_release = event.action == PLIMSOLL_SEGMENT_FREE;
        const bool is_more =
            event.action == PLIMSOLL_SEGMENT_ALLOC || event.action == PLIMSOLL_SEGMENT_MAP;
        reserved = is_more ? reserved + event.bytes : reserved - event.bytes;
        if (!is_release) move_reserved();
        break;
    }
    recording_.handle(ordinal_, reported);
    if (is_release) move_reserved();
  }
  void move_reserved() {
    if (has_gauges) recording_.gauge_moved(Gauge::kReserved, static_cast<std::int64_t>(reserved));
  }

  HeapSettings settings_;
  CudaRecording& recording_;
  int ordinal_;
  ModelAllocator model_;
  std::map<std::uint64_t, std::uint64_t> sizes_;
};

class CudaRecordingTest : public testing::Test {
 protected:
  CudaRecordingTest() {
    FakeRecorder::clear();
    recording.prepare(FakeRecorder::api(), 2, &describe_and_count);
    recording.start();
  }
  ~CudaRecordingTest() override { recording.stop(); }

  TrackerCounts counts(int ordinal = 0) { return recording.tracker(ordinal)->counts(); }
  static RecordedDevice& reported(int ordinal = 0) {
    return FakeRecorder::devices()[static_cast<std::size_t>(ordinal + 1)];
  }
  void expect_equal(const Device& device, int ordinal = 0) {
    EXPECT_EQ(reported(ordinal).allocated_bytes(), device.allocated);
    EXPECT_EQ(reported(ordinal).reserved_bytes(), device.reserved);
    EXPECT_EQ(reported(ordinal).misfits, 0U);
    EXPECT_EQ(counts(ordinal).disproved, 0U);
  }

  CudaRecording recording;
};

TEST_F(CudaRecordingTest, ABlockCarriesWhatTheThreadIsDoingAndItsPool) {
  Device device(recording, 0);
  device.seed();
  FakeRecorder::context()->layer = 7;
  const std::uint64_t address = device.alloc(1000, 3, {.first = 0, .second = 1});
  FakeRecorder::context()->layer = 0;
  const RecordedDevice::Block& block = reported().blocks.at(address);
  EXPECT_EQ(block.layer, 7U);
  EXPECT_EQ(block.block.requested_bytes, 1000U);
  EXPECT_EQ(block.block.size_bytes, 1024U);
  EXPECT_EQ(block.block.stream, 3U);
  EXPECT_EQ(block.block.pool, 1U);  // the name "0.1"
  EXPECT_EQ(reported().reserved_bytes(), 2 * kMiB);
}

TEST_F(CudaRecordingTest, AWorkspaceHasItsOperatorAndNoLayerOrLine) {
  Device device(recording, 0);
  device.seed();
  plimsoll_context& context = *FakeRecorder::context();
  const plimsoll_context running{.layer = 7,
                                 .outer_op = 5,
                                 .inner_op = 4,
                                 .forward_op = 3,
                                 .stack = 2,
                                 .op_instance = 9,
                                 .phase = PLIMSOLL_PHASE_BACKWARD,
                                 .autograd = PLIMSOLL_AUTOGRAD_UNKNOWN,
                                 .reserved = {}};
  context = running;
  device.library = Library::kCublas;
  const std::uint64_t workspace = device.alloc(32 * kMiB);
  device.library = Library::kNone;
  const std::uint64_t tensor = device.alloc(32 * kMiB);
  EXPECT_EQ(context.layer, 7U);
  EXPECT_EQ(context.stack, 2U);
  context = {};
  const RecordedDevice::Block& recorded = reported().blocks.at(workspace);
  EXPECT_EQ(recorded.tensor, PLIMSOLL_ROLE_WORKSPACE * 1000U + 2);
  EXPECT_EQ(recorded.context.layer, 0U);
  EXPECT_EQ(recorded.context.stack, 0U);
  EXPECT_EQ(recorded.context.forward_op, 0U);
  EXPECT_EQ(recorded.context.outer_op, 5U);
  EXPECT_EQ(recorded.context.inner_op, 4U);
  EXPECT_EQ(recorded.context.phase, PLIMSOLL_PHASE_BACKWARD);
  EXPECT_EQ(reported().blocks.at(tensor).tensor, 0U);
  EXPECT_EQ(reported().blocks.at(tensor).layer, 7U);
}

TEST_F(CudaRecordingTest, AHeldOrCorrectedWorkspaceStaysOne) {
  Device device(recording, 0);
  const SeenDevice seen = device.snapshot();
  device.library = Library::kCudnn;
  FakeRecorder::context()->layer = 7;
  const std::uint64_t held = device.alloc(5000);
  recording.tracker(0)->seed(seen);
  const std::uint64_t corrected = held + 5120;
  recording.handle(0, {.action = Action::kAlloc,
                       .address = corrected,
                       .size_bytes = 1000,
                       .library = Library::kCudnn});
  recording.gauge_moved(Gauge::kAllocated, static_cast<std::int64_t>(device.allocated + 4096));
  FakeRecorder::context()->layer = 0;
  EXPECT_EQ(counts().corrected, 1U);
  EXPECT_EQ(reported().blocks.at(corrected).block.size_bytes, 4096U);
  for (const std::uint64_t address : {held, corrected}) {
    EXPECT_EQ(reported().blocks.at(address).tensor, PLIMSOLL_ROLE_WORKSPACE * 1000U + 2);
    EXPECT_EQ(reported().blocks.at(address).layer, 0U);
  }
}

TEST_F(CudaRecordingTest, ABlockWaitsForItsStreamBetweenTheTwoFrees) {
  Device device(recording, 0);
  device.seed();
  const std::uint64_t address = device.alloc(4096);
  device.request_free(address);
  EXPECT_TRUE(reported().blocks.at(address).is_pending);
  device.model().complete_free(address);
  EXPECT_TRUE(reported().blocks.empty());
}

TEST_F(CudaRecordingTest, NobodyIsAskedWhatAFreeBelongsTo) {
  Device device(recording, 0);
  device.seed();
  const int at_first = g_descriptions;
  const std::uint64_t reported_immediately = device.alloc(4096);
  EXPECT_EQ(g_descriptions - at_first, 2);  // the segment and the block
  const std::uint64_t held = device.alloc(4096);
  const int before = g_descriptions;
  device.free(reported_immediately);
  recording.tracker(0)->await_snapshot();
  const SeenDevice seen = device.snapshot();
  device.free(held);
  recording.tracker(0)->seed(seen);
  EXPECT_EQ(g_descriptions, before);
  EXPECT_TRUE(reported().blocks.empty());
  device.model().empty_cache();
  EXPECT_EQ(g_descriptions - before, 1);
}

struct Setting {
  const char* name;
  HeapSettings settings;
};

class UnderSettings : public CudaRecordingTest, public testing::WithParamInterface<Setting> {};

// Whatever the program does, the recorded sums equal the allocator's, and each gauge value confirms
// them.
TEST_P(UnderSettings, SumsAreTheAllocatorsAfterEachEvent) {
  Device first(recording, 0, GetParam().settings);
  Device second(recording, 1, GetParam().settings);
  first.seed();
  second.seed();
  std::mt19937 random(GetParam().settings.has_expandable_segments ? 5 : 4);
  std::map<int, std::vector<std::uint64_t>> live;
  for (int turn = 0; turn < 3000; ++turn) {
    const int ordinal = static_cast<int>(random() % 2);
    Device& device = ordinal == 0 ? first : second;
    std::vector<std::uint64_t>& mine = live[ordinal];
    if (mine.size() < 20 || random() % 2 == 0) {
      const std::uint64_t bytes = std::uint64_t{1} << random() % 25U;
      mine.push_back(device.alloc(bytes + random() % bytes, random() % 2));
    } else {
      std::swap(mine[random() % mine.size()], mine.back());
      device.free(mine.back());
      mine.pop_back();
    }
    if (turn % 500 == 499) device.model().empty_cache();
    ASSERT_EQ(reported(ordinal).allocated_bytes(), device.allocated) << turn;
  }
  expect_equal(first, 0);
  expect_equal(second, 1);
  EXPECT_EQ(counts(0).corrected + counts(1).corrected, 0U);
  EXPECT_GT(counts(0).proofs, 1000U);
}

INSTANTIATE_TEST_SUITE_P(Allocator, UnderSettings,
                         testing::Values(Setting{"default", {}},
                                         Setting{"expandable", {.has_expandable_segments = true}},
                                         Setting{"max_split", {.max_split_bytes = 128 * kMiB}}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_F(CudaRecordingTest, WhatLivedBeforeIsAdoptedOnce) {
  Device device(recording, 0);
  recording.stop();
  const std::uint64_t kept = device.alloc(5 * kMiB, 2);
  const std::uint64_t pending = device.alloc(3000, 2);
  device.request_free(pending);
  recording.start();
  device.seed();
  EXPECT_TRUE(reported().blocks.at(kept).is_adopted);
  EXPECT_EQ(reported().blocks.at(kept).block.stream, 2U);
  EXPECT_TRUE(reported().blocks.at(pending).is_pending);
  EXPECT_EQ(reported().reserved_bytes(), 22 * kMiB);
  device.model().complete_free(pending);
  device.free(kept);
  EXPECT_TRUE(reported().blocks.empty());
  expect_equal(device);
}

TEST_F(CudaRecordingTest, EventsBetweenASnapshotAndItsReadingKeepTheirOrderAndLayer) {
  Device device(recording, 0);
  recording.stop();
  const std::uint64_t before = device.alloc(1000);
  recording.start();
  const std::uint64_t unseen = device.alloc(2000);  // allocated before the snapshot, so part of it
  const SeenDevice seen = device.snapshot();
  FakeRecorder::context()->layer = 9;
  const std::uint64_t after = device.alloc(3000);
  device.free(before);
  FakeRecorder::context()->layer = 0;
  EXPECT_TRUE(reported().blocks.empty());
  recording.tracker(0)->seed(seen);
  EXPECT_EQ(reported().blocks.count(before), 0U);
  EXPECT_TRUE(reported().blocks.at(unseen).is_adopted);
  EXPECT_EQ(reported().blocks.at(after).layer, 9U);
  EXPECT_EQ(FakeRecorder::context()->layer, 0U);
  expect_equal(device);
}

// torch reports each device's snapshot as if it were for device 0.
TEST_F(CudaRecordingTest, EachDeviceHoldsItsEventsFromItsOwnSnapshotOn) {
  Device first(recording, 0);
  Device second(recording, 1);
  const SeenDevice nothing;
  recording.begin_snapshot();
  recording.handle(0, {.action = Action::kSnapshot});  // of the first device
  const std::uint64_t in_first = first.alloc(1000);
  recording.handle(0, {.action = Action::kSnapshot});  // of the second device
  const std::uint64_t in_second = second.alloc(2000);
  recording.end_snapshot();
  recording.handle(0, {.action = Action::kSnapshot});  // a snapshot of the program
  recording.tracker(0)->seed(nothing);
  recording.tracker(1)->seed(nothing);
  EXPECT_FALSE(reported(0).blocks.at(in_first).is_adopted);
  EXPECT_FALSE(reported(1).blocks.at(in_second).is_adopted);
  expect_equal(first, 0);
  expect_equal(second, 1);
}

TEST_F(CudaRecordingTest, WhatDoesNotFitTheHeapIsCorrectedByASnapshotAlsoWithoutGauges) {
  Device device(recording, 0);
  device.has_gauges = false;
  device.seed();
  recording.stop();  // an event that is never reported
  const std::uint64_t missed = device.alloc(3 * kMiB);
  recording.tracker(0)->await_snapshot();
  recording.tracker(0)->seed({});  // and a snapshot that does not have it either
  recording.start();
  recording.tracker(0)->await_snapshot();
  device.seed();
  const std::uint64_t fits = device.alloc(1000);
  EXPECT_FALSE(recording.tracker(0)->needs_seed());
  // No free block begins there.
  recording.handle(0, {.action = Action::kAlloc, .address = fits + 512, .size_bytes = 700});
  EXPECT_TRUE(recording.tracker(0)->needs_seed());
  EXPECT_EQ(reported().blocks.at(fits + 512).block.size_bytes, 1024U);
  EXPECT_EQ(counts().disproved, 1U);
  recording.tracker(0)->await_snapshot();
  device.seed();
  EXPECT_FALSE(recording.tracker(0)->needs_seed());
  EXPECT_EQ(reported().blocks.count(fits + 512), 0U);
  EXPECT_EQ(reported().allocated_bytes(), device.allocated);
  EXPECT_EQ(reported().blocks.at(missed).block.size_bytes, 3 * kMiB);
  recording.handle(0, {.action = Action::kFreeRequested, .address = 99});
  EXPECT_TRUE(recording.tracker(0)->needs_seed());
}

TEST_F(CudaRecordingTest, PagesThatASnapshotLacksAreUnmapped) {
  Device device(recording, 0, {.has_expandable_segments = true});
  device.seed();
  const std::uint64_t kept = device.alloc(20 * kMiB);
  device.free(device.alloc(60 * kMiB));
  EXPECT_EQ(reported().mapped_bytes, device.reserved);
  SeenDevice seen = device.snapshot();
  SeenSegment& pages = seen.segments.at(0);
  ASSERT_EQ(pages.blocks.size(), 2U);
  pages.size_bytes = pages.blocks[0].size_bytes;
  pages.blocks.pop_back();
  recording.tracker(0)->await_snapshot();
  recording.tracker(0)->seed(seen);
  EXPECT_EQ(reported().mapped_bytes, 20 * kMiB);
  EXPECT_EQ(reported().blocks.count(kept), 1U);
  EXPECT_EQ(reported().misfits, 0U);
}

TEST_F(CudaRecordingTest, WhatIsReportedForAnotherThreadIsOfNoneOfOurOperators) {
  Device device(recording, 0);
  const SeenDevice seen = device.snapshot();
  std::uint64_t others = 0;
  std::thread([&] {
    FakeRecorder::context()->layer = 9;
    FakeRecorder::context()->op_instance = 5;
    others = device.alloc(1000);
  }).join();
  FakeRecorder::context()->op_instance = 5;
  const std::uint64_t ours = device.alloc(1000);
  FakeRecorder::context()->op_instance = 0;
  recording.tracker(0)->seed(seen);
  EXPECT_EQ(reported().blocks.at(others).layer, 9U);
  EXPECT_EQ(reported().blocks.at(others).op_instance, 0U);
  EXPECT_EQ(reported().blocks.at(ours).op_instance, 5U);
}

TEST_F(CudaRecordingTest, OthersAllocateWhileTheDeviceIsSeeded) {
  Device device(recording, 0);
  recording.stop();
  const std::uint64_t before = device.alloc(1000);
  recording.start();
  std::uint64_t meanwhile = 0;
  std::future<void> other;
  FakeRecorder::on_settle() = [&] {
    if (other.valid()) return;
    other = std::async(std::launch::async, [&] {
      meanwhile = device.alloc(2000);
      device.free(before);
    });
    ASSERT_EQ(other.wait_for(std::chrono::minutes(5)), std::future_status::ready);
  };
  device.seed();
  EXPECT_FALSE(reported().blocks.at(meanwhile).is_adopted);
  EXPECT_EQ(reported().blocks.count(before), 0U);
  expect_equal(device);
}

TEST_F(CudaRecordingTest, AGaugeThatReportsAnotherSizeCorrectsTheBlock) {
  Device device(recording, 0);
  device.seed();
  // As if torch rounded by an unknown rule.
  recording.handle(0,
                   {.action = Action::kSegmentAlloc, .address = 2 * kMiB, .size_bytes = 2 * kMiB});
  recording.handle(0, {.action = Action::kAlloc, .address = 2 * kMiB, .size_bytes = 1000});
  recording.gauge_moved(Gauge::kAllocated, 8192);
  EXPECT_EQ(reported().blocks.at(2 * kMiB).block.size_bytes, 8192U);
  EXPECT_EQ(counts().corrected, 1U);
  // The next one begins where the corrected one ends.
  recording.handle(0, {.action = Action::kAlloc, .address = 2 * kMiB + 8192, .size_bytes = 512});
  recording.gauge_moved(Gauge::kAllocated, 8192 + 512);
  EXPECT_EQ(counts().corrected, 1U);
  EXPECT_FALSE(recording.tracker(0)->needs_seed());
  EXPECT_EQ(reported().notices[PLIMSOLL_NOTICE_SIZES_CORRECTED], 1U);
  EXPECT_EQ(reported().notices.count(PLIMSOLL_NOTICE_SUMS_UNEXPLAINED), 0U);
}

TEST_F(CudaRecordingTest, WhatNoBlockExplainsIsComparedWithASnapshotAnew) {
  Device device(recording, 0);
  device.seed();
  const std::uint64_t kept = device.alloc(1000);
  FakeRecorder::context()->layer = 4;
  const std::uint64_t known = device.alloc(2000);
  FakeRecorder::context()->layer = 0;
  recording.gauge_moved(Gauge::kAllocated, 1);  // belongs to the free that follows
  recording.handle(0, {.action = Action::kFreeRequested, .address = kept});
  recording.handle(0, {.action = Action::kFreeCompleted, .address = kept});
  EXPECT_TRUE(recording.tracker(0)->needs_seed());
  EXPECT_EQ(reported().notices[PLIMSOLL_NOTICE_SUMS_UNEXPLAINED], 1U);
  recording.tracker(0)->await_snapshot();
  device.seed();  // in the snapshot, `kept` is still live
  EXPECT_FALSE(recording.tracker(0)->needs_seed());
  EXPECT_EQ(counts().seeded, 2U);
  EXPECT_TRUE(reported().blocks.at(kept).is_adopted);
  EXPECT_FALSE(reported().blocks.at(known).is_adopted);  // it keeps its layer
  EXPECT_EQ(reported().blocks.at(known).layer, 4U);
  EXPECT_EQ(reported().allocated_bytes(), device.allocated);
}

TEST_F(CudaRecordingTest, WithoutGaugesTheRulesAloneGiveTheSizes) {
  Device device(recording, 0);
  device.has_gauges = false;
  device.seed();
  for (const std::uint64_t bytes : {std::uint64_t{100}, 3 * kMiB, 17 * kMiB}) device.alloc(bytes);
  expect_equal(device);
  EXPECT_EQ(counts().proofs, 0U);
  recording.tracker(0)->report_unverified();
  EXPECT_EQ(reported().notices[PLIMSOLL_NOTICE_SIZES_UNVERIFIED], 3U);
  device.has_gauges = true;
  device.alloc(1000);
  recording.tracker(0)->report_unverified();
  EXPECT_EQ(reported().notices[PLIMSOLL_NOTICE_SIZES_UNVERIFIED], 0U);
}

TEST_F(CudaRecordingTest, AnAddressOutsideEverySegmentCountsAsItsRoundedRequest) {
  Device device(recording, 0);
  device.seed();
  recording.handle(0, {.action = Action::kAlloc, .address = 4096, .size_bytes = 700});
  EXPECT_EQ(reported().blocks.at(4096).block.size_bytes, 1024U);
}

TEST_F(CudaRecordingTest, SegmentsAreReportedWithTheirPool) {
  Device device(recording, 0);
  device.seed();
  const std::uint64_t captured = device.alloc(3 * kMiB, 0, {.first = 0, .second = 1});
  device.alloc(3 * kMiB);
  ASSERT_EQ(reported().pools.size(), 1U);
  EXPECT_EQ(reported().pools.begin()->first, captured);
  EXPECT_EQ(reported().pools.begin()->second, 1U);
  recording.stop();
  FakeRecorder::clear();
  recording.start();
  device.seed();  // the pool of an existing segment is reported too
  EXPECT_EQ(reported().pools.count(captured), 1U);
  EXPECT_EQ(reported().pools.size(), 1U);
}

TEST_F(CudaRecordingTest, OutOfMemoryNamesTheStreamOfTheRequestThatFailed) {
  Device device(recording, 1);
  device.seed();
  recording.handle(1, {.action = Action::kOutOfMemory,
                       .address = 1,
                       .size_bytes = 4096,
                       .stream = 5,
                       .pool = {.first = 0, .second = 1}});
  const Failure failure =
      recording.out_of_memory(1, {.segment_bytes = 2 * kMiB, .free_bytes = 100});
  EXPECT_EQ(failure.requested_bytes, 4096U);
  EXPECT_EQ(failure.segment_bytes, 2 * kMiB);
  ASSERT_EQ(reported(1).failed.size(), 1U);
  EXPECT_EQ(reported(1).failed[0].requested_bytes, 4096U);
  EXPECT_EQ(reported(1).failed[0].stream, 5U);
  EXPECT_EQ(reported(1).failed[0].pool, 1U);
}

TEST_F(CudaRecordingTest, NothingIsReportedOnceStopped) {
  Device device(recording, 0);
  device.seed();
  recording.stop();
  device.alloc(1000);
  EXPECT_EQ(reported().allocs, 0U);
}

TEST_F(CudaRecordingTest, UnknownDevicesAreIgnored) {
  recording.handle(63, {.action = Action::kAlloc, .address = 1, .size_bytes = 1});
  recording.handle(-1, {.action = Action::kAlloc, .address = 1, .size_bytes = 1});
  recording.out_of_memory(99, {});
  EXPECT_TRUE(reported().blocks.empty());
}

}  // namespace
}  // namespace plimsoll::libtorch_cuda
