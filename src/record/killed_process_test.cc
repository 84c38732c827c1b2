// Recordings of processes that are killed: the file has all but their last events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <map>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "plimsoll/recorder_c.h"
#include "record/hot/thread_registry.h"
#include "record/hot/ticks.h"
#include "tests/support/child_process.h"
#include "tests/support/recorded.h"
#include "tests/support/wait_until.h"

namespace plimsoll::record {
namespace {

using testing::IsEmpty;
using tests::api;
using tests::Recorded;
using tests::spawn;
using tests::TemporaryPath;
using tests::TraceReplay;
using tests::wait_for;
using tests::wait_until;

// The actions of the child's threads, in memory that outlives the child.
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
  plimsoll_context* context = api().context();
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
    if (i % 64 == 63) {
      std::this_thread::sleep_for(std::chrono::microseconds(50 + random() % 200));
      // A ring that never fills up drops nothing.
      const Ring& ring = ThreadRegistry::of(context)->ring;
      if (!wait_until([&] { return ring.head() - ring.tail() < ring.capacity() / 2; })) return;
    }
  }
  std::this_thread::sleep_for(tests::kLongestWait);
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

// Returns how many of the thread's events precede the end of the file, if the first events were
// evicted. Searches the log for the newest events of the file.
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

// The file must have exactly a prefix of each thread's actions in order, or the part of it that
// max_events retains.
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

struct Killed {
  std::vector<Loss> losses;
  std::uint64_t written = 0;
  int evicting = 0;  // recordings whose file lacks the first events
};

// Parameterized by max_events.
class Kill : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(MaxEvents, Kill, testing::Values(0, 5'000),
                         testing::PrintToStringParamName());

// Kills one recording process after another. `wait_before_kill` receives the process's log and the
// path of its file.
template <typename Wait>
Killed kill_recordings(int kills, std::uint64_t max_events, Wait&& wait_before_kill) {
  Killed killed;
  void* const shared = mmap(nullptr, sizeof(Log), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_NE(shared, MAP_FAILED);
  std::mt19937_64 random(20261120);
  for (int i = 0; i < kills && !testing::Test::HasFailure(); ++i) {
    madvise(shared, sizeof(Log), MADV_REMOVE);
    Log& log = *::new (shared) Log;
    const TemporaryPath path("kill");
    const std::uint64_t seed = random() % 400;
    const pid_t child = spawn([&] { return record_until_killed(path, max_events, log, seed); });
    EXPECT_TRUE(wait_until([&] { return log.has_started.load(); }));
    wait_before_kill(log, path);
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
    killed.evicting += replay.evicted > 0 ? 1 : 0;
    killed.losses.push_back(compare(replay, log, killed_ns));
    killed.written += replay.allocs.size() + replay.frees.size();
  }
  munmap(shared, sizeof(Log));
  return killed;
}

// Kills each process after the file has its first events, and the last one after events were
// evicted, if max_events is set.
void kill_after_first_events(std::uint64_t max_events) {
  constexpr int kKills = 4;
  const bool is_limited = max_events > 0;
  std::uint64_t kills = 0;
  const auto wait_before_kill = [&](const Log& log, const TemporaryPath& path) {
    const std::uint64_t events = ++kills * 500;
    const bool is_last = kills == kKills;
    EXPECT_TRUE(wait_until([&] { return log.threads[0].done.load() >= events; }));
    EXPECT_TRUE(wait_until([&] {
      const TraceReplay replay = TraceReplay::of_file(path.str());
      return is_limited && is_last ? replay.evicted > 0 : !replay.allocs.empty();
    }));
  };
  const Killed killed = kill_recordings(kKills, max_events, wait_before_kill);
  EXPECT_GT(killed.written, 0u);
  EXPECT_EQ(killed.evicting > 0, is_limited);
}

TEST(KillAfterFirstEvents, loses_only_the_last_events) { kill_after_first_events(0); }

// When events are evicted depends on the clock. A kill right after an eviction leaves too few
// events of a thread to find them in its log.
TEST(KillAfterFirstEvents, slow_loses_only_the_last_events_of_those_retained) {
  kill_after_first_events(5'000);
}

TEST_P(Kill, slow_at_any_time_loses_only_the_last_events) {
  const int kills = kills_wanted();
  std::mt19937_64 random(20261120);
  Killed killed = kill_recordings(kills, GetParam(), [&](const Log&, const TemporaryPath&) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300'000));
  });
  std::vector<Loss>& losses = killed.losses;
  ASSERT_FALSE(losses.empty());
  std::sort(losses.begin(), losses.end(), [](Loss a, Loss b) { return a.ms < b.ms; });
  // A loaded machine may suspend the writer for a while.
  EXPECT_LT(losses[losses.size() * 9 / 10].ms, 1'000u);
  if (GetParam() > 0 && kills >= 50) {
    EXPECT_GT(killed.evicting, 0);
  }
  std::printf("%d kills, %llu events in the files; lost in the median %llu ms, at most %llu ms\n",
              kills, static_cast<unsigned long long>(killed.written),
              static_cast<unsigned long long>(losses[losses.size() / 2].ms),
              static_cast<unsigned long long>(losses.back().ms));
}

}  // namespace
}  // namespace plimsoll::record
