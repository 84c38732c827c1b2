#include "base/suggestion.h"

#include <gtest/gtest.h>

namespace plimsoll::base {
namespace {

TEST(Suggestion, the_closest_word_is_found) {
  const std::vector<std::string> known = {"report", "export", "schema", "help"};
  EXPECT_EQ(nearest("reprot", known), "report");
  EXPECT_EQ(nearest("exprt", known), "export");
  EXPECT_EQ(nearest("sch", known), "schema");
}

TEST(Suggestion, a_word_close_to_none_gets_no_suggestion) {
  EXPECT_EQ(nearest("train", {"report", "export"}), "");
  EXPECT_EQ(nearest(std::string(100'000, 'a'), {"report"}), "");
  EXPECT_EQ(did_you_mean("zzz", {"report"}), "");
}

TEST(Suggestion, a_misspelt_word_differs_in_at_most_two_letters) {
  const std::vector<std::string> known = {"profile_tensors", "plimsoll"};
  EXPECT_EQ(misspelt("profile_tensor", known), "profile_tensors");
  EXPECT_EQ(misspelt("profle_tensros", known), "profile_tensors");
  EXPECT_EQ(misspelt("plimsol", known), "plimsoll");
  EXPECT_EQ(misspelt("plimsoll", known), "");
  EXPECT_EQ(misspelt("profile_memory", known), "");
  EXPECT_EQ(misspelt("", known), "");
  EXPECT_EQ(misspelt("Profile_Tensors", known), "profile_tensors");
  EXPECT_EQ(misspelt("MY_PROFILE_TENSORS", known), "");
  EXPECT_EQ(misspelt("MY_PROFILE_TENSORS", known, {"file_tensor"}), "profile_tensors");
}

}  // namespace
}  // namespace plimsoll::base
