// Recordings when processes fork, exit, abort or are killed, and when the disk or the memory is
// full. Each case runs in a child process.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "plimsoll/quiet_writing_c.h"
#include "plimsoll/recorder_c.h"
#include "record/hot/ticks.h"
#include "tests/support/recorded.h"
#include "tests/support/scarce_memory.h"

namespace plimsoll::record {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using tests::api;
using tests::memory_is_out;
using tests::options_for;
using tests::Recorded;
using tests::TemporaryPath;
using tests::TraceReplay;

plimsoll_context* here() { return api().context(); }
void alloc(std::uint64_t address, std::uint64_t size) { api().alloc(here(), 0, address, size); }
void free_at(std::uint64_t address) { api().free(here(), 0, address); }
void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Runs `body` in a child, which exits with its result; returns the status from waitpid().
template <typename Body>
pid_t spawn(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  return child;
}
int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}
void expect_success(int status) {
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

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
    sleep_ms(200);
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
  // Waits longer on a busy machine, until one has begun.
  for (int us = 0; us < 20'000 || (begun == 0 && us < 200'000); us += 500) {
    const pid_t child = spawn([] {
      alloc(64 * 100'000, 1000);
      return 0;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    kill(child, SIGKILL);
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

TEST(Fork, works_in_the_middle_of_everything) {
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
  for (int round = 0; round < 40; ++round) {
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
  while (TraceReplay::of_file(path.str()).live_bytes < 100)
    sleep_ms(10);  // written because of their age
  alloc(64 * 101, 1);
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
    for (int i = 0; i < 100 && recording.state().error == 0; ++i) {
      alloc(64, 1);
      recording.flush();
      sleep_ms(10);
    }
    return recording.stop().error == EPIPE ? 0 : 1;
  });
  const int reader = open(path.c_str(), O_RDONLY);
  ASSERT_GE(reader, 0);
  char first[16];
  EXPECT_EQ(read(reader, first, sizeof first), ssize_t{sizeof first});
  close(reader);
  expect_success(wait_for(child));
}

// Like a LibTorch program whose stderr is a pipe: SIGPIPE has its default action in it.
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

TEST(Full, running_out_of_memory_stops_only_recordings) {
  expect_success(wait_for(spawn([&] {
    Recorded recording = Recorded::in_memory();
    alloc(64, 1);  // the thread has its ring
    memory_is_out = true;
    for (std::uint64_t i = 2; i <= 50'000; ++i) alloc(i * 64, 1);
    sleep_ms(100);  // let the drain run out of memory
    recording.flush();
    const int error = recording.state().error;
    const int is_recording = api().is_recording();
    plimsoll_recording_options options = options_for(PLIMSOLL_SINK_MEMORY);
    const char* reason = nullptr;
    const bool has_started = plimsoll_recording_start(&options, &reason) != nullptr;
    memory_is_out = false;
    recording.stop();
    if (error != ENOMEM || is_recording != 0 || has_started) return 1;
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
    EXPECT_EQ(replay.state->events, 21'000u);
    EXPECT_EQ(replay.state->missing, 21'000u - replay.allocs.size());
    EXPECT_GE(replay.allocs.size(), 1000u);
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
  expect_success(wait_for(spawn([&] {
    Recorded file(Recorded::into_file(path.str(), 1'000));
    // Many live allocations: the new file would exceed the limit from the start.
    for (std::uint64_t i = 1; i <= 30'000; ++i) alloc(i * 64 * 977 % (1u << 30), i);
    file.flush();
    if (unlink(path.c_str()) != 0) return 1;  // as a user might
    for (std::uint64_t i = 1; i <= 30'000; ++i) alloc((1u << 31) + i * 64, i);
    sleep_ms(1'300);
    const plimsoll_recording_state state = file.stop();
    return state.error == 0 && access(path.c_str(), F_OK) != 0 ? 0 : 2;
  })));
}

// ---- kill
// -----------------------------------------------------------------------------------------

// What the child's threads did, in memory that outlives the child.
struct LoggedEvent {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;  // 0: a free
  std::uint64_t time_ns = 0;
};
constexpr std::size_t kLogEvents = 200'000;
struct ThreadLog {
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> done{0};
  LoggedEvent events[kLogEvents];
};
constexpr std::size_t kKillThreads = 2;
struct Log {
  std::atomic<bool> has_started{false};
  ThreadLog threads[kKillThreads];
};

void allocate_until_killed(ThreadLog& log, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::uint64_t base = (seed % 1000 + 1) << 33;
  std::vector<std::uint64_t> live;
  std::vector<bool> taken(8192);
  plimsoll_context* context = here();
  for (std::size_t i = 0; i < kLogEvents; ++i) {
    LoggedEvent& event = log.events[i];
    const bool is_free = !live.empty() && random() % 2 == 0;
    if (is_free) {
      const std::size_t which = random() % live.size();
      event.address = live[which];
      live[which] = live.back();
      live.pop_back();
      taken[(event.address - base) / 64] = false;
    } else {
      std::uint64_t slot = 0;
      do slot = random() % taken.size();
      while (taken[slot]);
      taken[slot] = true;
      event.address = base + 64 * slot;
      event.size_bytes = 1 + random() % 100'000;
      live.push_back(event.address);
    }
    event.time_ns = clock_ns();
    log.begun.store(i + 1);
    if (is_free) {
      api().free(context, 0, event.address);
    } else {
      api().alloc(context, 0, event.address, event.size_bytes);
    }
    log.done.store(i + 1);
    if (i % 64 == 63) std::this_thread::sleep_for(std::chrono::microseconds(50 + random() % 200));
  }
  sleep_ms(10'000);
}

struct Loss {
  std::uint64_t events = 0;
  std::uint64_t ms = 0;
};

struct Reported {
  std::uint64_t address, size_bytes;
};

bool is_same(const Reported& reported, const LoggedEvent& logged) {
  return reported.address == logged.address && reported.size_bytes == logged.size_bytes;
}

// How many of the thread's events come before the end of the file if the first ones were evicted:
// found by comparing the newest events in the file.
std::size_t find_end(const std::vector<Reported>& reported, const ThreadLog& thread) {
  const std::size_t compared = std::min<std::size_t>(reported.size(), 200);
  const auto newest = std::span(reported).last(compared);
  for (std::size_t end = thread.begun.load(); end >= compared; --end) {
    const auto logged = std::span(thread.events).subspan(end - compared, compared);
    if (std::ranges::equal(newest, logged, is_same)) return end;
  }
  ADD_FAILURE() << "the newest events of the file are not in the log";
  return thread.begun.load();
}

// The file must have a prefix of each thread's actions, in the thread's order, and nothing else; or
// the part of it that max_events retains.
Loss compare(const TraceReplay& replay, const Log& log, std::uint64_t killed_ns) {
  std::map<std::uint64_t, std::vector<Reported>> by_base;
  std::map<std::uint64_t, std::uint64_t> address_of;
  std::size_t alloc = 0;
  std::size_t free = 0;
  while (alloc < replay.allocs.size() || free < replay.frees.size()) {
    const bool takes_alloc =
        free == replay.frees.size() ||
        (alloc < replay.allocs.size() && replay.order[alloc + free] == TraceReplay::Kind::kAlloc);
    if (takes_alloc) {
      const format::Alloc& reported = replay.allocs[alloc++];
      address_of[reported.serial] = reported.address;
      by_base[reported.address >> 33].push_back({reported.address, reported.size_bytes});
    } else {
      const std::uint64_t address = address_of.at(replay.frees[free++].serial);
      by_base[address >> 33].push_back({address, 0});
    }
  }
  Loss loss;
  for (const ThreadLog& thread : log.threads) {
    const std::uint64_t begun = thread.begun.load();
    const std::uint64_t done = thread.done.load();
    if (begun == 0) continue;
    const auto& reported = by_base[thread.events[0].address >> 33];
    std::size_t end = reported.size();
    if (replay.evicted > 0) {
      end = find_end(reported, thread);
    } else {
      EXPECT_LE(reported.size(), begun);
      const std::size_t count = std::min<std::size_t>(reported.size(), begun);
      EXPECT_TRUE(std::equal(reported.begin(),
                             reported.begin() + static_cast<std::ptrdiff_t>(count),
                             std::begin(thread.events), is_same));
    }
    if (end >= done) continue;
    loss.events += done - end;
    loss.ms = std::max(loss.ms, (killed_ns - thread.events[end].time_ns) / 1'000'000);
  }
  return loss;
}

int record_until_killed(const TemporaryPath& path, std::uint64_t max_events, Log& log,
                        std::uint64_t seed) {
  new Recorded(Recorded::into_file(path.str(), max_events));
  log.has_started.store(true);
  std::thread other([&] { allocate_until_killed(log.threads[1], 2 * seed + 1); });
  allocate_until_killed(log.threads[0], 2 * seed);
  other.join();
  return 0;
}

int kills_wanted() {
  const char* text = std::getenv("PLIMSOLL_TEST_KILLS");
  return text != nullptr ? std::max(1, std::atoi(text)) : 60;
}

// Parameterized by max_events.
class Kill : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(MaxEvents, Kill, testing::Values(0, 5'000),
                         testing::PrintToStringParamName());

TEST_P(Kill, at_any_time_loses_only_the_last_events) {
  void* const shared = mmap(nullptr, sizeof(Log), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  std::mt19937_64 random(20261120);
  std::vector<Loss> losses;
  std::uint64_t written = 0;
  int evicting = 0;
  const int kills = kills_wanted();
  for (int i = 0; i < kills; ++i) {
    madvise(shared, sizeof(Log), MADV_REMOVE);
    Log& log = *::new (shared) Log;
    const TemporaryPath path("kill");
    const std::uint64_t seed = random() % 400;
    const pid_t child = spawn([&] { return record_until_killed(path, GetParam(), log, seed); });
    while (!log.has_started.load()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300'000));
    kill(child, SIGKILL);
    const std::uint64_t killed_ns = clock_ns();
    wait_for(child);
    const TraceReplay replay = TraceReplay::of_file(path.str());
    EXPECT_THAT(replay.violations, IsEmpty()) << "kill " << i << ", seed " << seed;
    EXPECT_EQ(replay.damaged_blocks, 0u);
    EXPECT_EQ(replay.dropped, 0u);
    EXPECT_EQ(replay.unmatched, 0u);
    EXPECT_FALSE(replay.is_ended);
    if (replay.state) {
      EXPECT_EQ(replay.state->state, format::RecordingState::kRunning);
      EXPECT_GE(replay.state->evicted, replay.evicted);  // it also counts marks and tags
    }
    evicting += replay.evicted > 0 ? 1 : 0;
    losses.push_back(compare(replay, log, killed_ns));
    written += replay.allocs.size() + replay.frees.size();
    if (testing::Test::HasFailure()) break;
  }
  munmap(shared, sizeof(Log));
  std::sort(losses.begin(), losses.end(), [](Loss a, Loss b) { return a.ms < b.ms; });
  // A loaded machine may suspend the writer for a while.
  EXPECT_LT(losses[losses.size() * 9 / 10].ms, 1'000u);
  if (GetParam() > 0 && kills >= 50) {
    EXPECT_GT(evicting, 0);
  }
  std::printf("%d kills, %llu events in the files; lost in the median %llu ms, at most %llu ms\n",
              kills, static_cast<unsigned long long>(written),
              static_cast<unsigned long long>(losses[losses.size() / 2].ms),
              static_cast<unsigned long long>(losses.back().ms));
}

}  // namespace
}  // namespace plimsoll::record
