#include "base/utf8.h"

#include <gtest/gtest.h>

namespace plimsoll::base {
namespace {

TEST(Utf8, invisible_characters_are_escaped_and_the_rest_stays) {
  EXPECT_EQ(escaped("run é 文.plim"), "run é 文.plim");
  EXPECT_EQ(escaped("a\nb\x1b[31m"), "a\\x0ab\\x1b[31m");
  EXPECT_EQ(escaped("\xff\xc3"), "\\xff\\xc3");     // not UTF-8
  EXPECT_EQ(escaped("\u202e"), "\\xe2\\x80\\xae");  // right-to-left override
  EXPECT_EQ(escaped(""), "");
}

}  // namespace
}  // namespace plimsoll::base
