#include "plimsoll/process_rank.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

// Restores a state without ranks.
class ProcessRankTest : public testing::Test {
 protected:
  ProcessRankTest() { forget(); }
  ~ProcessRankTest() override { forget(); }

  static void launch(const char* rank, const char* world_size) {
    ::setenv("RANK", rank, 1);
    ::setenv("WORLD_SIZE", world_size, 1);
  }

 private:
  static void forget() {
    ::unsetenv("RANK");
    ::unsetenv("LOCAL_RANK");
    ::unsetenv("WORLD_SIZE");
    ::unsetenv("PLIMSOLL_MONITOR_PRINT_RANKS");
    set_process_rank({.rank = 0, .world_size = 0});
  }
};

TEST_F(ProcessRankTest, a_single_process_has_no_rank) {
  EXPECT_EQ(process_rank(), std::nullopt);
  launch("0", "1");
  EXPECT_EQ(process_rank(), std::nullopt);
  EXPECT_EQ(rank_folder("out"), "out");
  EXPECT_EQ(with_rank("a line"), "a line");
  EXPECT_EQ(printed_by_rank("a line"), "a line");
}

TEST_F(ProcessRankTest, torchrun_sets_it_in_the_environment) {
  launch("1", "2");
  EXPECT_EQ(process_rank(), (ProcessRank{.rank = 1, .world_size = 2}));
  EXPECT_EQ(rank_folder("out"), "out/rank1");
  EXPECT_EQ(with_rank("a line"), "[rank 1] a line");
  EXPECT_EQ(with_rank("two\nlines\n"), "[rank 1] two\n[rank 1] lines\n");
  EXPECT_EQ(with_rank(""), "");
}

TEST_F(ProcessRankTest, without_a_rank_the_local_rank_counts) {
  ::setenv("WORLD_SIZE", "2", 1);
  ::setenv("LOCAL_RANK", "1", 1);
  EXPECT_EQ(process_rank(), (ProcessRank{.rank = 1, .world_size = 2}));
  ::setenv("RANK", "0", 1);
  EXPECT_EQ(process_rank(), (ProcessRank{.rank = 0, .world_size = 2}));
}

TEST_F(ProcessRankTest, invalid_values_are_not_a_rank) {
  for (const char* const rank : {"", "one", "2", "-1", "1x"}) {
    launch(rank, "2");
    EXPECT_EQ(process_rank(), std::nullopt) << rank;
  }
}

TEST_F(ProcessRankTest, an_invalid_rank_leaves_the_local_one) {
  launch("one", "2");
  ::setenv("LOCAL_RANK", "1", 1);
  EXPECT_EQ(process_rank(), (ProcessRank{.rank = 1, .world_size = 2}));
}

TEST_F(ProcessRankTest, a_rank_that_is_set_overrides_the_environment) {
  launch("1", "2");
  set_process_rank({.rank = 3, .world_size = 8});
  EXPECT_EQ(process_rank(), (ProcessRank{.rank = 3, .world_size = 8}));
  set_process_rank({.rank = 0, .world_size = 1});
  EXPECT_EQ(process_rank(), std::nullopt);
}

TEST_F(ProcessRankTest, by_option_only_the_first_prints) {
  ::setenv("PLIMSOLL_MONITOR_PRINT_RANKS", "first", 1);
  launch("1", "2");
  EXPECT_EQ(printed_by_rank("a line"), std::nullopt);
  EXPECT_EQ(with_rank("an alert"), "[rank 1] an alert");
  launch("0", "2");
  EXPECT_EQ(printed_by_rank("a line"), "[rank 0] a line");
}

}  // namespace
}  // namespace plimsoll
