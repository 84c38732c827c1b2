#include "record/hot/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace plimsoll::record {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Rings with events at the given ticks.
struct Rings {
  explicit Rings(const std::vector<std::vector<std::uint64_t>>& ticks) {
    for (const auto& of_thread : ticks) {
      auto& ring = *rings.emplace_back(std::make_unique<Slots>());
      ring.state.number = static_cast<std::uint32_t>(rings.size() - 1);
      ring.slots.resize(1024);
      ring.state.ring.attach(ring.slots.data(), ring.slots.size());
      for (const std::uint64_t tick : of_thread) {
        ring.state.ring.claim(Ring::Need::kOther)->stamp = make_stamp(tick, Kind::kFree, 0);
        ring.state.ring.publish();
      }
    }
  }
  std::vector<std::pair<std::uint64_t, std::uint32_t>> take(std::uint64_t horizon) {
    std::vector<Source> sources;
    for (const auto& ring : rings)
      sources.push_back({&ring->state, ring->state.ring.tail(), ring->state.ring.head(), 0});
    std::vector<std::pair<std::uint64_t, std::uint32_t>> taken;
    merge(sources, horizon,
          [&](const Event&, const Event&, std::uint64_t ticks, const ThreadState& state) {
            taken.emplace_back(ticks, state.number);
          });
    return taken;
  }
  struct Slots {
    std::vector<Event> slots;
    ThreadState state;
  };
  std::vector<std::unique_ptr<Slots>> rings;
};

TEST(Merge, orders_events_by_time) {
  Rings rings({{10, 40}, {20, 30, 50}});
  EXPECT_THAT(rings.take(100), ElementsAre(std::pair(10, 0), std::pair(20, 1), std::pair(30, 1),
                                           std::pair(40, 0), std::pair(50, 1)));
  EXPECT_THAT(rings.take(100), IsEmpty());
}

TEST(Merge, leaves_events_beyond_the_horizon) {
  Rings rings({{10, 40}, {20, 60}});
  EXPECT_THAT(rings.take(40), ElementsAre(std::pair(10, 0), std::pair(20, 1), std::pair(40, 0)));
  EXPECT_THAT(rings.take(59), IsEmpty());
  EXPECT_THAT(rings.take(60), ElementsAre(std::pair(60, 1)));
}

TEST(Merge, keeps_the_order_of_each_thread) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<std::uint64_t>> ticks(1 + random() % 9);
    std::vector<std::uint64_t> all;
    for (auto& of_thread : ticks) {
      std::uint64_t tick = 1000;
      for (std::uint64_t i = random() % 50; i > 0; --i) {
        tick += random() % 4;
        of_thread.push_back(tick);
        all.push_back(tick);
      }
    }
    std::sort(all.begin(), all.end());
    Rings rings(ticks);
    const std::uint64_t horizon = 1000 + random() % 120;
    std::vector<std::uint64_t> taken;
    for (const auto& [tick, thread] : rings.take(horizon)) taken.push_back(tick);
    EXPECT_TRUE(std::is_sorted(taken.begin(), taken.end()));
    EXPECT_EQ(taken.size(), static_cast<std::size_t>(
                                std::upper_bound(all.begin(), all.end(), horizon) - all.begin()));
    for (const auto& [tick, thread] : rings.take(10'000)) taken.push_back(tick);
    EXPECT_EQ(taken, all);
  }
}

}  // namespace
}  // namespace plimsoll::record
