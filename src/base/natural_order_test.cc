#include "base/natural_order.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace plimsoll::base {
namespace {

TEST(NaturalOrder, numbers_count_by_their_value_and_parents_come_first) {
  std::vector<std::string> names = {"net.10",   "net.2.mlp", "net.2", "net-x", "net.2.attn",
                                    "net.10.b", "net",       "",      "a9b10", "a9b9"};
  std::ranges::sort(names, natural_less);
  EXPECT_EQ(names, (std::vector<std::string>{"", "a9b9", "a9b10", "net", "net.2", "net.2.attn",
                                             "net.2.mlp", "net.10", "net.10.b", "net-x"}));
}

TEST(NaturalOrder, is_a_total_order_of_any_names) {
  const std::vector<std::string> names = {"",
                                          "0",
                                          "00",
                                          "1",
                                          "01",
                                          "1.0",
                                          "1.00",
                                          "1a",
                                          "01a",
                                          "10",
                                          "010",
                                          "a01",
                                          "a1b",
                                          "a1",
                                          "a1.",
                                          "a.1",
                                          "99999999999999999999999",
                                          "100000000000000000000000"};
  for (const auto& a : names) {
    EXPECT_FALSE(natural_less(a, a)) << a;
    for (const auto& b : names) {
      EXPECT_EQ(natural_less(a, b) || natural_less(b, a), a != b) << a << " " << b;
      EXPECT_FALSE(natural_less(a, b) && natural_less(b, a)) << a << " " << b;
      for (const auto& c : names) {
        const bool is_chain = natural_less(a, b) && natural_less(b, c);
        EXPECT_TRUE(!is_chain || natural_less(a, c)) << a << " " << b << " " << c;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::base
