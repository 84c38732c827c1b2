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

}  // namespace
}  // namespace plimsoll::base
