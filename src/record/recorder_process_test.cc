// Recordings when processes fork, exit or abort, and when the disk or the memory is full. Each case
// runs in a child process.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "plimsoll/quiet_writing_c.h"
#include "plimsoll/recorder_c.h"
#include "tests/support/child_process.h"
#include "tests/support/recorded.h"
#include "tests/support/scarce_memory.h"
#include "tests/support/wait_until.h"

namespace plimsoll::record {
namespace {

using testing::IsEmpty;
using tests::api;
using tests::expect_success;
using tests::memory_is_out;
using tests::options_for;
using tests::Recorded;
using tests::spawn;
using tests::TemporaryPath;
using tests::TraceReplay;
using tests::wait_for;
using tests::wait_until;

plimsoll_context* here() { return api().context(); }
void alloc(std::uint64_t address, std::uint64_t size) { api().alloc(here(), 0, address, size); }
void free_at(std::uint64_t address) { api().free(here(), 0, address); }
void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

struct OwnPath {
  explicit OwnPath(const TemporaryPath& parent, pid_t child)
      : text(parent.str() + "." + std::to_string(child)) {}
  OwnPath(const OwnPath&) = delete;
  OwnPath& operator=(const OwnPath&) = delete;
  ~OwnPath() { unlink(text.c_str()); }
  std::string text;
};

plimsoll_recording_options file_options(const TemporaryPath& path, std::uint8_t in_children = 0) {
  plimsoll_recording_options options = options_for(PLIMSOLL_SINK_FILE);
  options.path = path.c_str();
  options.in_children = in_children;
  return options;
}

// ---- fork -------------------------------------------------------------------------------------

TEST(Fork, a_child_records_nothing_unless_requested) {
  const TemporaryPath path("fork_off");
  Recorded recording(file_options(path));
  alloc(64, 10);
  const pid_t child = spawn([&] {
    if (api().is_recording() != 0) return 1;
    alloc(128, 1000);
    recording.flush();
    recording.stop();  // a handle from the parent has no effect here
    return api().is_recording();
  });
  expect_success(wait_for(child));
  alloc(256, 20);
  recording.stop();
  const TraceReplay replay = TraceReplay::of_file(path.str());
  EXPECT_EQ(replay.live_bytes, 30u);
  EXPECT_TRUE(replay.is_ended);
  EXPECT_NE(access((path.str() + "." + std::to_string(child)).c_str(), F_OK), 0);
}

std::uint64_t unrecorded_children_in(const std::string& path) {
  std::uint64_t count = 0;
  for (const format::Notice& notice : TraceReplay::of_file(path).notices) {
    if (notice.notice == PLIMSOLL_NOTICE_CHILDREN_UNRECORDED) count = notice.count;
  }
  return count;
}

TEST(Fork, children_that_allocate_unrecorded_are_counted) {
  const TemporaryPath path("fork_counted");
  Recorded recording(file_options(path));
  const auto allocates = [] { return alloc(128, 1), alloc(256, 1), 0; };
  expect_success(wait_for(spawn([] { return free_at(64), 0; })));  // like a child that only exits
  EXPECT_EQ(recording.state().unrecorded_children, 0u);
  expect_success(wait_for(spawn(allocates)));
  expect_success(wait_for(spawn([&] {
    expect_success(wait_for(spawn(allocates)));  // a grandchild
    return allocates();
  })));
  EXPECT_EQ(recording.state().unrecorded_children, 3u);
  recording.stop();
  EXPECT_EQ(unrecorded_children_in(path.str()), 3u);

  const TemporaryPath second("fork_counted_again");
  EXPECT_EQ(Recorded(file_options(second)).stop().unrecorded_children, 0u);
  EXPECT_EQ(unrecorded_children_in(second.str()), 0u);
}

TEST(Fork, children_that_are_recorded_are_not_counted) {
  const TemporaryPath path("fork_not_counted");
  Recorded recording(file_options(path, 1));
  const pid_t child = spawn([] { return alloc(128, 1000), 0; });
  expect_success(wait_for(child));
  const OwnPath own(path, child);
  EXPECT_EQ(recording.state().unrecorded_children, 0u);
}

TEST(Fork, a_child_without_recordings_may_start_its_own) {
  const TemporaryPath path("fork_own");
  const TemporaryPath other("fork_other");
  Recorded recording(file_options(path));
  alloc(64, 10);
  const pid_t child = spawn([&] {
    Recorded own = Recorded::into_file(other.str());
    alloc(128, 1000);
    // The child's own threads write it.
    if (!wait_until([&] { return TraceReplay::of_file(other.str()).live_bytes == 1000; })) return 2;
    alloc(256, 1);
    return own.stop().live_bytes == 1001 ? 0 : 1;
  });
  expect_success(wait_for(child));
  const TraceReplay replay = TraceReplay::of_file(other.str());
  EXPECT_EQ(replay.live_bytes, 1001u);
  EXPECT_TRUE(replay.is_ended);
}

TEST(Fork, a_child_records_into_its_own_file) {
  const TemporaryPath path("fork_on");
  Recorded recording(file_options(path, 1));
  alloc(64, 10);
  std::thread([] { alloc(128, 5); }).join();  // in the ring of a thread that the child lacks
  const pid_t child = spawn([&] {
    if (api().is_recording() == 0) return 1;
    free_at(128);
    alloc(256, 1000);
    return recording.stop().live_bytes == 1010 ? 0 : 2;
  });
  expect_success(wait_for(child));
  const OwnPath own(path, child);
  alloc(512, 3);
  recording.stop();

  const TraceReplay theirs = TraceReplay::of_file(own.text);
  EXPECT_TRUE(theirs.is_ended);
  EXPECT_EQ(theirs.adopted, 2u);
  EXPECT_EQ(theirs.live_bytes, 1010u);
  EXPECT_THAT(theirs.violations, IsEmpty());
  const TraceReplay ours = TraceReplay::of_file(path.str());
  EXPECT_EQ(ours.live_bytes, 18u);
  EXPECT_THAT(ours.violations, IsEmpty());
}

TEST(Fork, a_child_that_ends_immediately_leaves_a_readable_file) {
  const TemporaryPath path("fork_short");
  const Recorded recording(file_options(path, 1));
  alloc(64, 10);
  const pid_t child = spawn([] {
    alloc(256, 1000);
    return 0;  // by _exit(), which does not end recordings
  });
  expect_success(wait_for(child));
  const TraceReplay theirs = TraceReplay::of_file(OwnPath(path, child).text);
  EXPECT_FALSE(theirs.is_ended);
  EXPECT_EQ(theirs.adopted, 1u);
  EXPECT_GE(theirs.live_bytes, 10u);
}

TEST(Fork, a_child_that_is_killed_early_leaves_no_empty_file) {
  const TemporaryPath path("fork_killed");
  const Recorded recording(file_options(path, 1));
  for (std::uint64_t i = 1; i <= 50'000; ++i) alloc(64 * i, 10);  // the file begins with these
  int begun = 0;
  constexpr int kMostUs = 20'000;
  for (int us = 0; us <= kMostUs; us += 500) {
    const pid_t child = spawn([] {
      alloc(std::uint64_t{64} * 100'000, 1000);
      return 0;
    });
    if (us < kMostUs) {  // the last child ends by itself, after it has begun its file
      std::this_thread::sleep_for(std::chrono::microseconds(us));
      kill(child, SIGKILL);
    }
    wait_for(child);
    const OwnPath own(path, child);
    struct stat status{};
    if (stat(own.text.c_str(), &status) != 0) continue;
    ++begun;
    EXPECT_GT(status.st_size, 0) << "killed after " << us << " us";
  }
  EXPECT_GT(begun, 0);
}

TEST(Fork, a_child_without_events_creates_no_file) {
  const TemporaryPath path("fork_idle");
  const Recorded recording(file_options(path, 1));
  const pid_t child = spawn([] { return 0; });
  expect_success(wait_for(child));
  EXPECT_NE(access((path.str() + "." + std::to_string(child)).c_str(), F_OK), 0);
}

TEST(Fork, a_grandchild_also_has_its_own_file) {
  const TemporaryPath path("fork_deep");
  const Recorded recording(file_options(path, 1));
  alloc(64, 10);
  int numbers[2];
  ASSERT_EQ(pipe(numbers), 0);
  const pid_t child = spawn([&] {
    alloc(128, 1);
    const pid_t grandchild = spawn([&] {
      alloc(256, 1);
      recording.flush();
      return 0;
    });
    if (write(numbers[1], &grandchild, sizeof grandchild) != sizeof grandchild) return 1;
    recording.flush();
    return wait_for(grandchild);
  });
  expect_success(wait_for(child));
  pid_t grandchild = 0;
  ASSERT_EQ(read(numbers[0], &grandchild, sizeof grandchild), ssize_t{sizeof grandchild});
  close(numbers[0]);
  close(numbers[1]);
  const OwnPath first(path, child);
  const OwnPath second(path, grandchild);
  EXPECT_EQ(TraceReplay::of_file(first.text).live_bytes, 11u);
  EXPECT_EQ(TraceReplay::of_file(second.text).live_bytes, 12u);
}

void fork_while_threads_are_busy(int forks) {
  const TemporaryPath path("fork_busy");
  Recorded recording(file_options(path, 1));
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    threads.emplace_back([&, i] {
      const std::string stem = "fork.busy." + std::to_string(i) + ".";
      for (std::uint64_t round = 0; !is_over.load(); ++round) {
        tests::name(stem + std::to_string(round % 512));
        const std::uint64_t address = (i << 32) + 64 * (round % 64 + 1);
        alloc(address, 8);
        free_at(address);
        if (round % 64 == 0) recording.flush();
        if (round % 16 == 0) sleep_ms(1);
      }
    });
  }
  for (int i = 0; i < forks; ++i) {
    const pid_t child = spawn([&] {
      alloc(64, 10);
      tests::name("child");
      alloc(128, 10);
      free_at(64);
      const plimsoll_recording_state state = recording.stop();
      return state.error == 0 && state.replaced == 0 ? 0 : 1;
    });
    const int status = wait_for(child);
    expect_success(status);
    const OwnPath own(path, child);
    const TraceReplay replay = TraceReplay::of_file(own.text);
    EXPECT_TRUE(replay.is_ended);
    EXPECT_GE(replay.live_bytes, 10u);
    EXPECT_LE(replay.live_bytes, 10u + 3 * 8u);
    EXPECT_THAT(replay.violations, IsEmpty());
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(recording.stop().live_bytes, 0u);
  EXPECT_THAT(TraceReplay::of_file(path.str()).violations, IsEmpty());
}

TEST(Fork, works_in_the_middle_of_everything) { fork_while_threads_are_busy(10); }

TEST(Fork, slow_works_in_the_middle_of_everything) { fork_while_threads_are_busy(40); }

// ---- the end of a process ---------------------------------------------------------------------

// Never stopped; reachable, so that leak checkers accept them.
Recorded* volatile running[3];

TEST(Exit, ends_the_recordings_that_are_still_running) {
  const TemporaryPath path("exit_runs");
  const TemporaryPath limited("exit_limited");
  const pid_t child = fork();
  if (child == 0) {
    running[0] = new Recorded(file_options(path));
    running[1] = new Recorded(Recorded::into_file(limited.str(), 1000));
    running[2] = new Recorded(Recorded::in_memory());
    for (std::uint64_t i = 1; i <= 5000; ++i) alloc(i * 64, 2);
    std::thread([] { alloc(32, 1); }).join();
    exit(0);
  }
  expect_success(wait_for(child));
  TraceReplay replay = TraceReplay::of_file(path.str());
  EXPECT_TRUE(replay.is_ended);
  EXPECT_EQ(replay.live_bytes, 10'001u);
  replay = TraceReplay::of_file(limited.str());
  EXPECT_TRUE(replay.is_ended);
  EXPECT_EQ(replay.live_bytes, 10'001u);
  EXPECT_GT(replay.evicted, 0u);
}

int record_and_wait(const TemporaryPath& path) {
  new Recorded(file_options(path));
  for (std::uint64_t i = 1; i <= 100; ++i) alloc(i * 64, 1);
  // The drain writes these events because of their age.
  if (!wait_until([&] { return TraceReplay::of_file(path.str()).live_bytes >= 100; })) return 1;
  alloc(std::uint64_t{64} * 101, 1);
  return 0;
}

TEST(Exit, without_handlers_loses_only_the_last_events) {
  const TemporaryPath path("exit_hard");
  expect_success(wait_for(spawn([&] { return record_and_wait(path); })));  // _exit
  const TraceReplay replay = TraceReplay::of_file(path.str());
  EXPECT_GE(replay.live_bytes, 100u);
  EXPECT_THAT(replay.violations, IsEmpty());
}

TEST(Exit, by_abort_loses_only_the_last_events) {
  const TemporaryPath path("exit_abort");
  const int status = wait_for(spawn([&] {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    record_and_wait(path);
    signal(SIGABRT, SIG_DFL);
    abort();
    return 0;
  }));
  EXPECT_TRUE(WIFSIGNALED(status));
  const TraceReplay replay = TraceReplay::of_file(path.str());
  EXPECT_GE(replay.live_bytes, 100u);
  EXPECT_THAT(replay.violations, IsEmpty());
}

// ---- full ---------------------------------------------------------------------------------------

TEST(Full, a_file_size_limit_stops_only_the_sink) {
  const TemporaryPath path("full_limit");
  expect_success(wait_for(spawn([&] {
    signal(SIGXFSZ, SIG_DFL);
    const rlimit limit{100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Recorded file(file_options(path));
    const Recorded memory = Recorded::in_memory();
    for (std::uint64_t i = 1; i <= 100'000; ++i) {
      alloc(i * 64 * 977 % (1u << 30), i);
      if (i % 1000 == 0) file.flush();
    }
    const plimsoll_recording_state state = file.stop();
    if (state.error != EFBIG) return 1;
    return memory.replay().live_bytes == state.live_bytes ? 0 : 2;
  })));
  const TraceReplay replay = TraceReplay::of_file(path.str());
  EXPECT_GT(replay.allocs.size(), 5'000u);
  EXPECT_EQ(replay.damaged_blocks, 0u);
  EXPECT_THAT(replay.violations, IsEmpty());
}

TEST(Full, a_pipe_without_a_reader_stops_only_the_sink) {
  const TemporaryPath path("full_pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const pid_t child = spawn([&] {
    signal(SIGPIPE, SIG_DFL);
    Recorded recording(file_options(path));
    const bool has_failed = wait_until([&] {
      alloc(64, 1);
      recording.flush();
      return recording.state().error != 0;
    });
    return has_failed && recording.stop().error == EPIPE ? 0 : 1;
  });
  const int reader = open(path.c_str(), O_RDONLY);
  ASSERT_GE(reader, 0);
  char first[16];
  EXPECT_EQ(read(reader, first, sizeof first), ssize_t{sizeof first});
  close(reader);
  expect_success(wait_for(child));
}

// Like a LibTorch program whose stderr is a pipe: SIGPIPE has its default action.
TEST(Full, a_closed_stderr_does_not_end_a_program_recorded_through_the_environment) {
  const TemporaryPath path("full_stderr");
  std::ofstream(path.str()) << "not a trace";
  const std::string taken = path.str() + ".2";
  expect_success(wait_for(spawn([&] {
    signal(SIGPIPE, SIG_DFL);
    int ends[2] = {-1, -1};
    if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0) return 1;
    close(ends[0]);
    setenv("PLIMSOLL", "1", 1);
    setenv("PLIMSOLL_OUT", path.c_str(), 1);
    if (plimsoll_record_from_environment() == 0) return 2;  // prints that the file exists
    alloc(64, 1);
    plimsoll_print("tensors are not recorded", "no reason");
    std::exit(0);  // prints the summary
  })));
  EXPECT_EQ(TraceReplay::of_file(taken).live_bytes, 1u);
  unlink(taken.c_str());
}

TEST(Environment, variables_that_contradict_each_other_record_nothing) {
  const TemporaryPath path("contradiction");
  const TemporaryPath said("contradiction_said");
  expect_success(wait_for(spawn([&] {
    if (freopen(said.c_str(), "w", stderr) == nullptr) return 3;
    setenv("PLIMSOLL", "1", 1);
    setenv("PLIMSOLL_OUT", path.c_str(), 1);
    setenv("PLIMSOLL_MODE", "lite", 1);
    setenv("PLIMSOLL_USES", "always", 1);
    return plimsoll_record_from_environment();
  })));
  const auto text = TraceReplay::bytes_of(said.str());
  EXPECT_EQ(
      std::string(reinterpret_cast<const char*>(text.data()), text.size()),
      "plimsoll: nothing is recorded: PLIMSOLL_MODE='lite' contradicts PLIMSOLL_USES='always': "
      "lite observes no uses.\n");
}

TEST(Full, running_out_of_memory_stops_only_recordings) {
  expect_success(wait_for(spawn([&] {
    Recorded recording = Recorded::in_memory();
    alloc(64, 1);  // the thread has its ring
    memory_is_out = true;
    for (std::uint64_t i = 2; i <= 50'000; ++i) alloc(i * 64, 1);
    const bool has_stopped = wait_until([] { return api().is_recording() == 0; });  // the drain
    recording.flush();
    const int error = recording.state().error;
    const int is_recording = api().is_recording();
    plimsoll_recording_options options = options_for(PLIMSOLL_SINK_MEMORY);
    const char* reason = nullptr;
    const bool has_started = plimsoll_recording_start(&options, &reason) != nullptr;
    memory_is_out = false;
    recording.stop();
    if (!has_stopped || error != ENOMEM || is_recording != 0 || has_started) return 1;
    const Recorded again = Recorded::in_memory();
    alloc(64, 3);
    return again.replay().live_bytes == 3 ? 0 : 2;
  })));
}

// The state in a file on a full disk.
TEST(Full, the_file_states_since_when_and_how_much_is_missing) {
  for (const std::uint64_t max_events : {0u, 2'000u}) {
    const TemporaryPath path("full_state");
    const TemporaryPath said("full_said");
    expect_success(wait_for(spawn([&] {
      if (freopen(said.c_str(), "w", stderr) == nullptr) return 3;
      Recorded file(Recorded::into_file(path.str(), max_events));
      for (std::uint64_t i = 1; i <= 1000; ++i) alloc(i * 64, 1);
      file.flush();
      const rlimit limit{20'000, 20'000};  // less than the file already has
      setrlimit(RLIMIT_FSIZE, &limit);
      for (std::uint64_t i = 1; i <= 20'000; ++i) {
        alloc((1 << 20) + i * 64 * 977 % (1u << 30), i);
        if (i % 1000 == 0) file.flush();
      }
      for (int i = 0; i < 3; ++i) file.flush();
      const plimsoll_recording_state state = file.stop();
      return state.error == EFBIG && state.events == 21'000 ? 0 : 1;
    })));
    const TraceReplay replay = TraceReplay::of_file(path.str());
    ASSERT_TRUE(replay.state.has_value());
    EXPECT_EQ(replay.state->state, format::RecordingState::kFailed);
    EXPECT_EQ(replay.state->error, static_cast<std::uint32_t>(EFBIG));
    // The reading of the process at the start is in the file, that at the end is missing.
    const std::size_t figures = replay.figures.size();
    EXPECT_GT(figures, 0u);
    EXPECT_EQ(replay.state->events, 21'000u + 2 * figures);
    EXPECT_EQ(replay.state->missing, 20'000u + figures);
    EXPECT_EQ(replay.allocs.size(), 1000u);
    EXPECT_FALSE(replay.is_ended);
    const auto text = TraceReplay::bytes_of(said.str());
    const std::string line(reinterpret_cast<const char*>(text.data()), text.size());
    EXPECT_THAT(line, testing::MatchesRegex(
                          "plimsoll: .*: File too large: the recording ends here, [0-9.]+ [mu]?s "
                          "after its start; the program continues\n"));
  }
}

TEST(Full, a_removed_file_is_not_recreated) {
  const TemporaryPath path("full_shorten");
  const TemporaryPath said("full_shorten_said");
  expect_success(wait_for(spawn([&] {
    if (freopen(said.c_str(), "w", stderr) == nullptr) return 3;
    Recorded file(Recorded::into_file(path.str(), 1'000));
    // Many live allocations: the new file would exceed the limit from the start.
    for (std::uint64_t i = 1; i <= 25'000; ++i) alloc(i * 64 * 977 % (1u << 30), i);
    file.flush();
    if (unlink(path.c_str()) != 0) return 1;  // as a user might
    for (std::uint64_t i = 1; i <= 40'000; ++i) alloc((1u << 31) + i * 64, i);
    // The writer has tried to shorten the file.
    if (!wait_until([&] { return !TraceReplay::bytes_of(said.str()).empty(); })) return 4;
    const plimsoll_recording_state state = file.stop();
    return state.error == 0 && access(path.c_str(), F_OK) != 0 ? 0 : 2;
  })));
}

}  // namespace
}  // namespace plimsoll::record
