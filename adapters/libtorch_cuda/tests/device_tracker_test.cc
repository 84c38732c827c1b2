// The state of a device, as recorded by the process's recorder.
#include "device_tracker.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::libtorch_cuda {
namespace {

plimsoll_context* describe_context(plimsoll_context* before) {
  plimsoll_context* context = plimsoll_recorder()->context();
  *before = *context;
  return context;
}

class DeviceTrackerTest : public testing::Test {
 protected:
  DeviceTrackerTest() {
    plimsoll_recording_options options{};
    options.size_bytes = sizeof(options);
    options.sink = PLIMSOLL_SINK_NULL;
    recording_ = plimsoll_recording_start(&options, nullptr);
  }
  ~DeviceTrackerTest() override { plimsoll_recording_stop(recording_, nullptr); }

  plimsoll_recording_state state() {
    plimsoll_recording_state reported{};
    plimsoll_recording_get_state(recording_, &reported);
    return reported;
  }
  std::vector<plimsoll_live> live() {
    std::vector<plimsoll_live> rows(10);
    rows.resize(plimsoll_recording_live(recording_, rows.data(), rows.size()));
    return rows;
  }
  void seed(const SeenDevice& seen) {
    tracker.await_snapshot();
    tracker.handle({.action = Action::kSnapshot});
    tracker.seed(seen);
  }

  DeviceTracker tracker{*plimsoll_recorder(), plimsoll_recorder()->device(PLIMSOLL_DEVICE_CUDA, 0),
                        &describe_context};

 private:
  plimsoll_recording* recording_ = nullptr;
};

TEST_F(DeviceTrackerTest, AllOfAFullDeviceIsAdopted) {
  constexpr std::uint64_t kBlocks = 200'000;
  constexpr std::uint64_t kStart = std::uint64_t{1} << 40;
  SeenDevice seen;
  seen.segments.push_back({.address = kStart, .size_bytes = kBlocks * 512, .blocks = {}});
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    seen.segments[0].blocks.push_back({.address = kStart + i * 512,
                                       .size_bytes = 512,
                                       .requested_bytes = 500,
                                       .state = BlockState::kAllocated});
  }
  seed(seen);
  EXPECT_EQ(state().live_count, kBlocks);
  EXPECT_EQ(state().dropped, 0U);

  seed({});
  EXPECT_EQ(state().live_count, 0U);
  EXPECT_EQ(state().dropped, 0U);
}

TEST_F(DeviceTrackerTest, WorkspacesAreLiveWithTheirRoleAndWithoutALayer) {
  plimsoll_context* context = plimsoll_recorder()->context();
  const std::uint32_t layer = plimsoll_recorder()->name("Net.fc", 6);
  seed({});
  context->layer = layer;
  constexpr std::uint64_t kStart = std::uint64_t{1} << 40;
  tracker.handle({.action = Action::kSegmentAlloc, .address = kStart, .size_bytes = 2 << 20});
  tracker.handle({.action = Action::kAlloc,
                  .address = kStart,
                  .size_bytes = 1 << 20,
                  .library = Library::kCublasLt});
  tracker.handle({.action = Action::kAlloc, .address = kStart + (1 << 20), .size_bytes = 512});
  context->layer = 0;
  for (const plimsoll_live& row : live()) {
    const bool is_workspace = row.size_bytes > 512;
    EXPECT_EQ(row.role, is_workspace ? PLIMSOLL_ROLE_WORKSPACE : PLIMSOLL_ROLE_KNOWN);
    EXPECT_EQ(row.layer, is_workspace ? 0 : layer);
    EXPECT_STREQ(plimsoll_name_text(row.name, nullptr), is_workspace ? "cuBLASLt" : "");
  }
  EXPECT_EQ(live().size(), 2U);
  seed({});
}

}  // namespace
}  // namespace plimsoll::libtorch_cuda
