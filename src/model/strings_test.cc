#include "model/strings.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace plimsoll::model {
namespace {

TEST(StringTable, each_distinct_string_has_one_id) {
  StringTable strings;
  const StringId first = strings.intern("forward");
  EXPECT_EQ(strings.intern(std::string("for") + "ward"), first);
  EXPECT_NE(strings.intern("backward"), first);
  EXPECT_EQ(strings[first], "forward");
}

TEST(StringTable, the_empty_string_is_row_0) {
  StringTable strings;
  EXPECT_EQ(strings.intern(""), StringId{0});
  EXPECT_EQ(strings[StringId{0}], "");
  EXPECT_EQ(strings.size(), 1u);
}

TEST(StringTable, views_stay_valid_while_it_grows_and_moves) {
  StringTable strings;
  const StringId id = strings.intern("first");
  const std::string_view view = strings[id];
  for (int i = 0; i < 50'000; ++i) strings.intern("name " + std::to_string(i));
  const StringTable moved = std::move(strings);
  EXPECT_EQ(view, "first");
  EXPECT_EQ(moved[id].data(), view.data());
}

TEST(StringTable, keeps_zero_bytes_and_long_strings) {
  StringTable strings;
  const std::string with_zero("a\0b", 3);
  const std::string huge(1 << 20, 'x');
  EXPECT_EQ(strings[strings.intern(with_zero)], with_zero);
  EXPECT_EQ(strings[strings.intern(huge)], huge);
  EXPECT_EQ(strings[strings.intern("after")], "after");
  EXPECT_GE(strings.memory_bytes(), huge.size());
}

}  // namespace
}  // namespace plimsoll::model
