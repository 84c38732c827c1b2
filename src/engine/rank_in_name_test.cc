#include "engine/rank_in_name.h"

#include <gtest/gtest.h>

namespace plimsoll::engine {
namespace {

TEST(RankInName, follows_the_word_rank) {
  EXPECT_EQ(rank_in_name("rank3.pickle"), 3);
  EXPECT_EQ(rank_in_name("snap_rank-12.pickle"), 12);
  EXPECT_EQ(rank_in_name("/run/Rank_0_memory.pickle"), 0);
  EXPECT_EQ(rank_in_name("trace.rank=7.json.gz"), 7);
  EXPECT_EQ(rank_in_name("ranking_rank2.pickle"), 2);
}

TEST(RankInName, other_names_have_no_rank) {
  EXPECT_FALSE(rank_in_name("snapshot_3.pickle").has_value());
  EXPECT_FALSE(rank_in_name("/run/rank3/snapshot.pickle").has_value());
  EXPECT_FALSE(rank_in_name("frank3.pickle").has_value());
  EXPECT_FALSE(rank_in_name("rank.pickle").has_value());
  EXPECT_FALSE(rank_in_name("rank99999999999999999999.pickle").has_value());
  EXPECT_FALSE(rank_in_name("").has_value());
}

}  // namespace
}  // namespace plimsoll::engine
