#include "model/live_index.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "model/live_set.h"
#include "model/trace.h"

namespace plimsoll::model {
namespace {

// Random lifetimes of `events` events: some from before the recording, some never freed, some
// pending for a while.
Lifetimes random_lifetimes(std::uint32_t events, double share_freed, std::mt19937_64& random) {
  const auto one_in = [&](std::uint64_t n) { return random() % n == 0; };
  const auto end_after = [&](std::uint32_t event) {
    return event + 1 + static_cast<std::uint32_t>(random() % (events - event));
  };
  Lifetimes rows;
  const auto add = [&](std::uint32_t born, std::uint32_t requested, std::uint32_t completed) {
    rows.alloc.push_back(born);
    rows.free_requested.push_back(requested < events ? requested : kNone);
    rows.free_completed.push_back(completed < events ? completed : kNone);
  };
  for (std::uint64_t before = random() % 200; before > 0; --before) {
    const std::uint32_t completed = static_cast<std::uint32_t>(random() % (events + 1));
    if (one_in(3)) {
      rows.alloc.push_back(kNone);
      rows.free_requested.push_back(kBeforeRecording);
      rows.free_completed.push_back(completed < events ? completed : kNone);
    } else {
      add(kNone, completed, completed);
    }
  }
  rows.baseline_count = static_cast<std::uint32_t>(rows.size());
  for (std::uint32_t event = 0; event < events; ++event) {
    if (one_in(2)) continue;  // a free, or another event
    const bool is_freed = static_cast<double>(random() % 1000) < share_freed * 1000;
    const std::uint32_t requested = is_freed ? end_after(event) : kNone;
    const bool is_pending = is_freed && requested < events && one_in(4);
    add(event, requested, is_pending ? end_after(requested) : requested);
  }
  return rows;
}

std::vector<std::uint32_t> by_scan(const Lifetimes& lifetimes, Liveness liveness,
                                   std::int64_t event) {
  std::vector<std::uint32_t> live;
  for (std::uint32_t row = 0; row < lifetimes.size(); ++row) {
    if (is_live(lifetimes, row, liveness, event)) live.push_back(row);
  }
  return live;
}

TEST(LiveIndex, matches_a_scan_of_all_rows) {
  std::mt19937_64 random(20'261'125);
  const std::uint32_t sizes[] = {1, 2, 63, 130, 2'000, 40'000};
  for (const std::uint32_t events : sizes) {
    for (const double share_freed : {0.0, 0.5, 0.99, 1.0}) {
      const Lifetimes lifetimes = random_lifetimes(events, share_freed, random);
      for (const Liveness liveness : {Liveness::kAllocated, Liveness::kActive}) {
        const LiveIndex index(lifetimes, liveness);
        for (int query = 0; query < 40; ++query) {
          const auto event = static_cast<std::int64_t>(random() % (events + 1)) - 1;
          std::vector<std::uint32_t> rows;
          index.append_live(lifetimes, event, rows);
          ASSERT_EQ(rows, by_scan(lifetimes, liveness, event))
              << events << " events, after event " << event;
        }
      }
    }
  }
}

TEST(LiveIndex, is_empty_without_lifetimes) {
  std::vector<std::uint32_t> rows;
  LiveIndex{}.append_live(Lifetimes{}, kBeforeFirst, rows);
  LiveIndex(Lifetimes{}, Liveness::kActive).append_live(Lifetimes{}, 5, rows);
  EXPECT_TRUE(rows.empty());
}

TEST(LiveIndex, takes_little_memory) {
  std::mt19937_64 random(7);
  const Lifetimes lifetimes = random_lifetimes(200'000, 0.9, random);
  const LiveIndex index(lifetimes, Liveness::kActive);
  EXPECT_LT(index.memory_bytes(), lifetimes.size() / 8);
}

}  // namespace
}  // namespace plimsoll::model
