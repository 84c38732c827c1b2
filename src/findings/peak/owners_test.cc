#include "findings/peak/owners.h"

#include <string>

#include <gtest/gtest.h>

namespace plimsoll::findings {
namespace {

TEST(Owners, is_the_innermost_module_with_most_of_the_bytes) {
  const Owner owner = owner_of_most({{"Net.head.weight", 5},
                                     {"Net.tables.0.weight", 40},
                                     {"Net.tables.1.weight", 50},
                                     {"Net.tables2.weight", 5}},
                                    0.8);
  EXPECT_EQ(owner.path, "Net.tables");
  EXPECT_EQ(owner.bytes, 90u);
  EXPECT_EQ(owner.tensors, 2u);
}

TEST(Owners, is_one_tensor_if_it_has_most) {
  EXPECT_EQ(owner_of_most({{"Net.a", 1}, {"Net.b", 99}}, 0.8).path, "Net.b");
}

TEST(Owners, models_side_by_side_have_no_owner) {
  const Owner owner = owner_of_most({{"Net.a", 50}, {"Other.b", 50}}, 0.8);
  EXPECT_EQ(owner.path, "");
  EXPECT_EQ(owner.tensors, 2u);
  EXPECT_EQ(owner_of_most({}, 0.8).path, "");
}

TEST(Owners, a_name_of_many_parts_is_followed_to_a_bounded_depth) {
  std::string name = "a";
  for (int i = 0; i < 1000; ++i) name += ".a";
  EXPECT_LT(owner_of_most({{name, 1}}, 0.8).path.size(), 200u);
}

}  // namespace
}  // namespace plimsoll::findings
