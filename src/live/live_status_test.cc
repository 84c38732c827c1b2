#include "live/live_status.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>

#include "live/live_status_folder.h"
#include "probes/process_memory.h"
#include "tests/support/fake_machine.h"
#include "tests/support/wait_until.h"

namespace plimsoll::live {
namespace {

using testing::HasSubstr;
using tests::wait_until;

constexpr std::int64_t kMinuteNs = 60'000'000'000;

MemorySample one_sample() {
  MemorySample sample;
  sample.devices.resize(1);
  sample.devices[0].name = "cpu";
  sample.devices[0].live_bytes = 4711;
  return sample;
}

class LiveStatus : public testing::Test {
 protected:
  std::string folder() const { return machine_.root() + "/live"; }
  LiveStatusOptions options() {
    return {{folder()}, 1'000'000, 1'000'000, 1'000'000, [this] { ++checks_; }};
  }
  // Waits until the publisher has completed a check that began after this call.
  void wait_for_a_check() const {
    const int before = checks_;
    EXPECT_TRUE(wait_until([&] { return checks_ >= before + 2; }));
  }
  LiveStatusPlace place(int pid = ::getpid()) const { return {pid, folder()}; }
  std::string path() const { return folder() + "/" + std::to_string(::getpid()); }

  auto publisher() {
    auto started = LiveStatusPublisher::start(one_sample, options());
    EXPECT_TRUE(started.ok()) << started.error().message;
    return std::move(started).value();
  }
  // Waits for the thread to write the header.
  LiveStatusReader reader() const {
    auto opened = LiveStatusReader::open(place());
    EXPECT_TRUE(wait_until([&] {
      if (!opened) opened = LiveStatusReader::open(place());
      return opened.ok();
    }));
    return std::move(opened).value();
  }
  static std::optional<MemorySample> next_sample(LiveStatusReader& reader) {
    std::optional<MemorySample> sample;
    EXPECT_TRUE(wait_until([&] { return (sample = reader.read()).has_value(); }));
    return sample;
  }
  void use(const std::string& text) const {
    machine_.write("/live/" + std::to_string(::getpid()), text);
    ::chmod(folder().c_str(), 0700);
  }

  tests::FakeMachine machine_;
  std::atomic<int> checks_ = 0;
};

TEST_F(LiveStatus, a_watcher_receives_the_samples_it_requests) {
  const auto shown = publisher();
  LiveStatusReader seen = reader();
  EXPECT_TRUE(seen.is_alive());
  EXPECT_FALSE(seen.read());
  ASSERT_TRUE(seen.ask_for(kMinuteNs).ok());
  const std::optional<MemorySample> sample = next_sample(seen);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->devices[0].live_bytes, 4711U);
  struct stat reported{};
  ASSERT_EQ(::stat(path().c_str(), &reported), 0);
  EXPECT_EQ(reported.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(folder().c_str(), &reported), 0);
  EXPECT_EQ(reported.st_mode & 0777U, 0700U);
}

TEST_F(LiveStatus, without_a_watcher_no_sample_is_taken) {
  std::atomic<int> taken = 0;
  const auto take = [&] {
    ++taken;
    return one_sample();
  };
  {
    auto started = LiveStatusPublisher::start(take, options());
    ASSERT_TRUE(started.ok());
    LiveStatusReader seen = reader();
    wait_for_a_check();
    EXPECT_EQ(taken, 0);
    ASSERT_TRUE(seen.ask_for(0).ok());
    wait_for_a_check();
    EXPECT_EQ(taken, 0);
    ASSERT_TRUE(seen.ask_for(kMinuteNs).ok());
    EXPECT_TRUE(wait_until([&] { return taken >= 2; }));
  }
  EXPECT_THAT(find_live_statuses({folder()}), testing::IsEmpty());
}

TEST_F(LiveStatus, a_watcher_waits_for_holders) {
  std::atomic<int> asked = 0;
  std::atomic<bool> is_found = false;
  LiveStatusOptions with_holders = options();
  with_holders.find_holders = [&](bool is_new) {
    asked += is_new ? 1 : 0;
    return is_found.load();
  };
  auto started = LiveStatusPublisher::start(one_sample, with_holders);
  ASSERT_TRUE(started.ok());
  LiveStatusReader seen = reader();
  wait_for_a_check();
  EXPECT_EQ(asked, 0);
  for (const int request : {1, 2}) {
    is_found = false;
    const auto number = seen.ask_for_holders();
    ASSERT_TRUE(number.ok());
    wait_for_a_check();
    EXPECT_EQ(asked, request);
    EXPECT_FALSE(seen.has_holders(*number));
    is_found = true;
    EXPECT_TRUE(wait_until([&] { return seen.has_holders(*number); }));
  }
}

TEST_F(LiveStatus, a_request_without_end_is_invalid) {
  const auto shown = publisher();
  LiveStatusReader seen = reader();
  const int fd = open_live_status_file(folder(), ::getpid());
  const std::int64_t for_ever = INT64_MAX;
  ASSERT_EQ(::pwrite(fd, &for_ever, sizeof(for_ever), kWantedAt), 8);
  ::close(fd);
  wait_for_a_check();
  EXPECT_FALSE(seen.read());
}

TEST_F(LiveStatus, a_failing_sample_ends_only_the_publishing) {
  std::atomic<bool> has_failed = false;
  const auto take = [&]() -> MemorySample {
    has_failed = true;
    throw std::bad_alloc();
  };
  auto started = LiveStatusPublisher::start(take, options());
  ASSERT_TRUE(started.ok());
  LiveStatusReader seen = reader();
  ASSERT_TRUE(seen.ask_for(kMinuteNs).ok());
  EXPECT_TRUE(wait_until([&] { return has_failed.load(); }));
  EXPECT_FALSE(seen.read());
}

TEST_F(LiveStatus, a_removed_file_is_recreated) {
  const auto shown = publisher();
  static_cast<void>(reader());
  // Renamed first: the publisher may recreate the file while the folder is being emptied.
  const std::string gone = machine_.root() + "/gone";
  std::filesystem::rename(folder(), gone);
  std::filesystem::remove_all(gone);
  LiveStatusReader seen = reader();
  ASSERT_TRUE(seen.ask_for(kMinuteNs).ok());
  EXPECT_TRUE(next_sample(seen));
}

TEST_F(LiveStatus, a_folder_that_cannot_be_created_now_is_created_later) {
  const auto shown = publisher();
  static_cast<void>(reader());
  const std::string gone = machine_.root() + "/gone";
  std::filesystem::rename(folder(), gone);
  const int file =
      ::open(folder().c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);  // in place of the folder
  if (file >= 0) {  // otherwise the publisher was faster
    ::close(file);
    wait_for_a_check();  // which fails
    std::filesystem::remove(folder());
  }
  LiveStatusReader seen = reader();
  ASSERT_TRUE(seen.ask_for(kMinuteNs).ok());
  EXPECT_TRUE(next_sample(seen));
}

TEST_F(LiveStatus, the_next_folder_is_used_if_one_is_unavailable) {
  LiveStatusOptions two = options();
  two.folders.insert(two.folders.begin(), machine_.root() + "/not/there");
  const auto started = LiveStatusPublisher::start(one_sample, two);
  ASSERT_TRUE(started.ok());
  static_cast<void>(reader());
}

TEST_F(LiveStatus, a_folder_of_another_user_is_rejected) {
  ASSERT_EQ(::mkdir(folder().c_str(), 0700), 0);
  ASSERT_EQ(::chmod(folder().c_str(), 0777), 0);
  const auto started = LiveStatusPublisher::start(one_sample, options());
  ASSERT_FALSE(started.ok());
  EXPECT_THAT(started.error().message, HasSubstr("others may write to it"));
  EXPECT_FALSE(LiveStatusReader::open(place()).ok());
  EXPECT_THAT(find_live_statuses({folder()}), testing::IsEmpty());
  machine_.write("/file", "x");
  LiveStatusOptions no_folder = options();
  no_folder.folders = {machine_.root() + "/file"};
  EXPECT_FALSE(LiveStatusPublisher::start(one_sample, no_folder).ok());
}

TEST_F(LiveStatus, a_folder_below_a_world_writable_one_is_rejected) {
  const std::string parent = machine_.root() + "/parent";
  ASSERT_EQ(::mkdir(parent.c_str(), 0700), 0);
  const std::string below = parent + "/live";
  EXPECT_TRUE(make_live_status_folder(below).ok());
  ASSERT_EQ(::chmod(parent.c_str(), 0777), 0);
  const Status status = check_live_status_folder(below);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, testing::HasSubstr("others may write to "));
  ASSERT_EQ(::chmod(parent.c_str(), 01777), 0);  // like /tmp
  EXPECT_TRUE(check_live_status_folder(below).ok());
}

TEST_F(LiveStatus, a_file_that_others_can_write_to_is_not_opened) {
  ASSERT_TRUE(make_live_status_folder(folder()).ok());
  const int made = ::open((folder() + "/7").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ASSERT_GE(made, 0);
  const int opened = open_live_status_file(folder(), 7);
  EXPECT_GE(opened, 0);
  ::close(opened);
  ASSERT_EQ(::fchmod(made, 0666), 0);
  EXPECT_EQ(open_live_status_file(folder(), 7), -1);
  ::close(made);
}

TEST_F(LiveStatus, files_of_dead_processes_are_removed_and_the_rest_stays) {
  const auto shown = publisher();
  static_cast<void>(reader());
  const std::string text = [&] {  // a header with a different start time
    LiveStatusHeader header;
    header.pid = 1;
    header.start_ticks = 12345678987654321;
    header.pid_namespace = probes::own_pid_namespace();
    return std::string(reinterpret_cast<const char*>(&header), sizeof(header));
  }();
  machine_.write("/live/1", text);
  machine_.write("/live/999999999", "");
  machine_.write("/live/notes.txt", "not ours");
  ASSERT_EQ(::symlink("/etc/passwd", (folder() + "/77").c_str()), 0);
  const auto found = find_live_statuses({folder(), "/nowhere"});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].pid, 77);
  EXPECT_FALSE(LiveStatusReader::open(found[0]).ok());
  EXPECT_EQ(found[1].pid, ::getpid());
  EXPECT_FALSE(std::filesystem::exists(folder() + "/1"));
  EXPECT_FALSE(std::filesystem::exists(folder() + "/999999999"));
  EXPECT_TRUE(std::filesystem::exists(folder() + "/notes.txt"));
}

TEST_F(LiveStatus, a_new_publisher_removes_stale_files_first) {
  machine_.write("/live/999999999", "");
  ::chmod(folder().c_str(), 0700);
  const auto shown = publisher();
  EXPECT_TRUE(wait_until([&] { return !std::filesystem::exists(folder() + "/999999999"); }));
  EXPECT_EQ(find_live_statuses({folder()}).size(), 1U);
}

TEST_F(LiveStatus, a_pid_of_another_namespace_is_left_alone) {
  LiveStatusHeader header;
  header.pid = 999999999;
  header.start_ticks = 1;
  header.pid_namespace = probes::own_pid_namespace() + 1;
  machine_.write("/live/999999999", {reinterpret_cast<const char*>(&header), sizeof(header)});
  ::chmod(folder().c_str(), 0700);
  EXPECT_EQ(find_live_statuses({folder()}).size(), 1U);
  auto opened = LiveStatusReader::open(place(999999999));
  ASSERT_TRUE(opened.ok());
  EXPECT_FALSE(opened->is_alive());
}

TEST_F(LiveStatus, files_of_garbage_show_nothing) {
  for (const std::string& text :
       {std::string(), std::string("PLIMLIVE"), std::string(4096, '\xff'), std::string(64, '\0')}) {
    use(text);
    EXPECT_FALSE(LiveStatusReader::open(place()).ok());
  }
  LiveStatusHeader header;
  header.pid = ::getpid();
  header.sample_number = 1;
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{8}, UINT64_MAX}) {
    header.sample_bytes = size;
    use(std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + "12345678");
    auto opened = LiveStatusReader::open(place());
    ASSERT_TRUE(opened.ok());
    EXPECT_FALSE(opened->read()) << size;
  }
  std::filesystem::resize_file(path(), 3);  // truncated while it is watched
  use(std::string(reinterpret_cast<const char*>(&header), sizeof(header)));
  auto opened = LiveStatusReader::open(place());
  ASSERT_TRUE(opened.ok());
  std::filesystem::resize_file(path(), 3);
  EXPECT_FALSE(opened->read());
}

TEST_F(LiveStatus, a_forked_child_is_silent_and_leaves_the_file_alone) {
  const auto shown = publisher();
  LiveStatusReader seen = reader();
  const std::string file = path();
  const pid_t child = ::fork();
  if (child == 0) {  // no allocation here: sanitizers' allocators do not survive a fork
    shown->~LiveStatusPublisher();
    ::_exit(::access(file.c_str(), F_OK) == 0 ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(seen.ask_for(kMinuteNs).ok());
  EXPECT_TRUE(next_sample(seen));
}

}  // namespace
}  // namespace plimsoll::live
