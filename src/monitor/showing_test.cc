#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "live/live_status.h"
#include "monitor/watch.h"
#include "plimsoll/monitor.h"
#include "plimsoll/recorder_c.h"
#include "tests/support/fake_machine.h"

namespace plimsoll::monitor {
namespace {

constexpr std::int64_t kMinuteNs = 60'000'000'000;
constexpr std::uint64_t kBytes = 3 << 20;

const plimsoll_recorder_api& api() { return *plimsoll_recorder(); }

class ShowingTest : public testing::Test {
 protected:
  ShowingTest() { ::setenv("PLIMSOLL_LIVE_FOLDER", folder().c_str(), 1); }
  ~ShowingTest() override {
    ::unsetenv("PLIMSOLL_LIVE_FOLDER");
    ::unsetenv("PLIMSOLL_LIVE");
  }
  std::string folder() const { return machine_.root() + "/live"; }
  bool is_shown() const { return !live::find_live_statuses({folder()}).empty(); }
  MemorySample seen() const {
    auto reader = live::LiveStatusReader::open({::getpid(), folder()});
    while (!reader) reader = live::LiveStatusReader::open({::getpid(), folder()});
    std::optional<MemorySample> sample;
    while (!sample) {
      EXPECT_TRUE(reader->ask_for(kMinuteNs).ok());
      std::this_thread::yield();
      sample = reader->read();
    }
    return *sample;
  }

  tests::FakeMachine machine_;
};

plimsoll_recording* record_into_nothing() {
  plimsoll_recording_options options{};
  options.size_bytes = sizeof(options);
  options.sink = PLIMSOLL_SINK_NULL;
  return plimsoll_recording_start(&options, nullptr);
}

TEST_F(ShowingTest, a_lent_recording_is_shown_with_its_exact_peak) {
  plimsoll_recording* recording = record_into_nothing();
  ASSERT_NE(recording, nullptr);
  lend_recording(recording);
  ASSERT_TRUE(start_showing().ok());
  api().alloc(api().context(), 0, 64, kBytes);
  api().alloc(api().context(), 0, 128, kBytes);
  api().free(api().context(), 0, 128);
  const MemorySample sample = seen();
  ASSERT_EQ(sample.devices.size(), 1U);
  EXPECT_EQ(sample.devices[0].name, "cpu");
  EXPECT_EQ(sample.devices[0].live_bytes, kBytes);
  EXPECT_EQ(sample.devices[0].peak_bytes, 2 * kBytes);
  api().free(api().context(), 0, 64);
  stop_showing();
  take_back_recording(recording);
  plimsoll_recording_stop(recording, nullptr);
  EXPECT_TRUE(take_sample().devices.empty());
  EXPECT_FALSE(is_shown());
}

TEST_F(ShowingTest, a_recording_is_queried_while_there_is_a_watch_or_a_lent_one) {
  plimsoll_recording* recording = record_into_nothing();
  lend_recording(recording);
  api().alloc(api().context(), 0, 64, kBytes);
  EXPECT_EQ(take_sample().devices.at(0).live_bytes, kBytes);
  ASSERT_TRUE(start_watching().ok());
  api().alloc(api().context(), 0, 128, 7);
  EXPECT_EQ(take_sample().devices.at(0).live_bytes, kBytes + 7);
  stop_watching();
  EXPECT_EQ(take_sample().devices.at(0).live_bytes, kBytes + 7);
  api().free(api().context(), 0, 64);
  api().free(api().context(), 0, 128);
  take_back_recording(recording);
  EXPECT_TRUE(take_sample().devices.empty());
  plimsoll_recording_stop(recording, nullptr);
}

TEST_F(ShowingTest, the_progress_of_the_loop_is_shown_too) {
  show_progress(1200, 0.25);
  show_progress(1201);
  ASSERT_TRUE(start_showing().ok());
  const MemorySample sample = seen();
  EXPECT_EQ(sample.iteration, 1201);
  EXPECT_EQ(sample.loss, 0.25);
  stop_showing();
}

TEST_F(ShowingTest, without_a_loop_counter_the_recordings_last_step_is_shown) {
  plimsoll_recording* recording = record_into_nothing();
  lend_recording(recording);
  show_progress(0);
  ASSERT_TRUE(start_showing().ok());
  EXPECT_EQ(seen().iteration, 0);
  api().mark(api().context(), PLIMSOLL_MARK_STEP, 41);
  stop_showing();
  ASSERT_TRUE(start_showing().ok());
  EXPECT_EQ(seen().iteration, 41);
  stop_showing();
  take_back_recording(recording);
  plimsoll_recording_stop(recording, nullptr);
}

TEST_F(ShowingTest, the_last_stop_ends_it) {
  ASSERT_TRUE(start_showing().ok());
  ASSERT_TRUE(start_showing().ok());
  stop_showing();
  EXPECT_TRUE(is_shown());
  stop_showing();
  EXPECT_FALSE(is_shown());
  stop_showing();  // one call too many does no harm
}

TEST_F(ShowingTest, it_can_be_switched_off) {
  ::setenv("PLIMSOLL_LIVE", "0", 1);
  ASSERT_TRUE(start_showing().ok());
  EXPECT_FALSE(std::filesystem::exists(folder()));
  stop_showing();
}

TEST_F(ShowingTest, an_unavailable_folder_is_a_harmless_error) {
  ::setenv("PLIMSOLL_LIVE_FOLDER", "/proc/nothing/here", 1);
  EXPECT_FALSE(start_showing().ok());
  stop_showing();
}

}  // namespace
}  // namespace plimsoll::monitor
