#include "record/hot/uses.h"

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace plimsoll::record {
namespace {

constexpr std::uint32_t kOwner = 1;

struct UsesTest : testing::Test {
  UsesTest() { EXPECT_TRUE(uses.clear()); }
  void use(std::uint64_t address) { running.use(uses, kOwner, &address, 1); }
  void end() { running.end(uses, kOwner); }
  void operator_on(std::uint64_t address) { use(address), end(); }

  Uses uses;
  RunningUses running;
};

TEST_F(UsesTest, age_counts_allocations_since_the_end_of_the_last_operator) {
  uses.allocated(64);
  use(64);
  uses.allocated(128);  // the operator's result
  end();
  uses.allocated(192);
  uses.allocated(256);
  EXPECT_EQ(uses.freed(64), (format::EndUse{2 + 1, 0}));
  EXPECT_EQ(uses.freed(64), format::EndUse{});
}

TEST_F(UsesTest, memory_that_no_operator_used_ages_from_its_allocation) {
  uses.allocated(64);
  uses.allocated(128);
  EXPECT_EQ(uses.freed(64), (format::EndUse{1 + 1, format::kNeverUsed}));
}

TEST_F(UsesTest, what_an_operator_allocates_is_in_use_until_it_ends) {
  uses.allocated(64);
  running.made(uses, kOwner, 64);
  uses.allocated(128);
  EXPECT_EQ(uses.use_of(64), (format::EndUse{0 + 1, format::kNeverUsed}));
  end();
  uses.allocated(192);
  EXPECT_EQ(uses.freed(64), (format::EndUse{1 + 1, format::kNeverUsed}));
}

TEST_F(UsesTest, memory_freed_by_the_operator_that_uses_it_has_no_age) {
  uses.allocated(64);
  uses.allocated(128);
  use(64);
  uses.allocated(192);
  EXPECT_EQ(uses.freed(64), (format::EndUse{0 + 1, 1}));
  uses.allocated(64);  // the slot is reused
  end();
  EXPECT_EQ(uses.use_of(64), (format::EndUse{0 + 1, format::kNeverUsed}));
}

TEST_F(UsesTest, gaps_are_powers_of_two_rounded_up) {
  uses.allocated(64);
  for (const auto& [gap, bits] :
       {std::pair{1, 1}, {2, 2}, {3, 3}, {4, 3}, {5, 4}, {9, 5}, {2, 5}}) {
    for (int i = 0; i < gap; ++i) uses.allocated(128);
    operator_on(64);
    EXPECT_EQ(uses.use_of(64), (format::EndUse{0 + 1, static_cast<std::uint8_t>(bits)})) << gap;
  }
}

TEST_F(UsesTest, escaped_memory_is_unknown_until_it_is_freed) {
  uses.allocated(64);
  uses.escape(64);
  operator_on(64);
  EXPECT_EQ(uses.freed(64), format::EndUse{});
  uses.allocated(64);
  EXPECT_EQ(uses.use_of(64).age_plus_one, 1u);
}

TEST_F(UsesTest, memory_that_two_threads_use_simultaneously_is_unknown) {
  RunningUses other;
  const std::uint64_t address = 64;
  for (const bool other_ends_first : {true, false}) {
    uses.allocated(address);
    use(address);
    other.use(uses, kOwner + 1, &address, 1);
    other_ends_first ? other.end(uses, kOwner + 1) : end();
    uses.allocated(128);
    EXPECT_EQ(uses.use_of(address), format::EndUse{}) << "one of them still runs";
    other_ends_first ? end() : other.end(uses, kOwner + 1);
    EXPECT_EQ(uses.freed(address), format::EndUse{});
  }
}

TEST_F(UsesTest, memory_that_two_threads_use_in_turn_has_an_age) {
  RunningUses other;
  const std::uint64_t address = 64;
  uses.allocated(address);
  operator_on(address);
  uses.allocated(128);
  other.use(uses, kOwner + 1, &address, 1);
  other.end(uses, kOwner + 1);
  EXPECT_EQ(uses.freed(address), (format::EndUse{0 + 1, 1}));
}

TEST_F(UsesTest, uses_last_until_the_outermost_region_ends) {
  uses.allocated(64);
  running.begin_region();
  running.begin_region();
  operator_on(64);
  running.end_region();
  uses.allocated(128);
  end();
  uses.allocated(192);
  EXPECT_EQ(uses.use_of(64), (format::EndUse{0 + 1, 0}));
  running.end_region();
  end();
  uses.allocated(256);
  EXPECT_EQ(uses.use_of(64), (format::EndUse{1 + 1, 0}));
}

TEST_F(UsesTest, what_an_operator_keeps_escapes_when_it_ends) {
  uses.allocated(64);
  uses.allocated(256);
  running.escape_at_end();
  use(64);
  uses.allocated(128);
  running.made(uses, kOwner, 128);
  end();
  operator_on(256);
  EXPECT_EQ(uses.freed(64), format::EndUse{});
  EXPECT_EQ(uses.freed(128), format::EndUse{});
  EXPECT_EQ(uses.freed(256).age_plus_one, 1u);
}

TEST_F(UsesTest, clear_forgets) {
  uses.allocated(64);
  EXPECT_TRUE(uses.clear());
  EXPECT_EQ(uses.freed(64), format::EndUse{});
}

// Compared with a map, on addresses as allocators return them.
TEST_F(UsesTest, random_events_match_a_map) {
  struct Known {
    std::uint64_t last = 0;
    bool is_used = false;
  };
  std::mt19937 random(5);
  std::map<std::uint64_t, Known> known;
  std::vector<std::uint64_t> live;
  std::uint64_t clock = 0;
  std::uint64_t unknown = 0, checked = 0;
  for (int step = 0; step < 200'000; ++step) {
    const auto which = random() % 4;
    if (which == 0 || live.empty()) {
      const std::uint64_t address = random() % 3 == 0
                                        ? 0x7F00'0000'0000 + (random() % 100'000) * 4096
                                        : 0x5500'0000'0000 + (random() % 100'000) * 128;
      if (known.contains(address)) continue;
      uses.allocated(address);
      known[address] = {++clock, false};
      live.push_back(address);
    } else if (which == 1 && live.size() > 20'000) {
      std::swap(live[random() % live.size()], live.back());
      const format::EndUse use = uses.freed(live.back());
      const Known& expected = known[live.back()];
      unknown += use.age_plus_one == 0 ? 1 : 0;
      if (use.age_plus_one != 0) {
        ++checked;
        ASSERT_EQ(use.age_plus_one - 1, clock - expected.last);
        ASSERT_EQ((use.gap & format::kNeverUsed) == 0, expected.is_used);
      }
      known.erase(live.back());
      live.pop_back();
    } else {
      const std::uint64_t address = live[random() % live.size()];
      operator_on(address);
      known[address] = {clock, true};
    }
  }
  EXPECT_GT(checked, 10'000u);
  EXPECT_LT(unknown, checked / 1000) << "buckets overflow";
}

}  // namespace
}  // namespace plimsoll::record
