#include "exporters/stack_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::exporters {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kTorch = "/x/site-packages/torch/nn/modules/linear.py:125 Linear.forward";
constexpr const char* kFunctional = "/x/site-packages/torch/nn/functional.py:9 gelu";
constexpr const char* kNative = "?? at::_ops::mm::call";
constexpr const char* kUser = "/home/u/train.py:5 main";

std::vector<std::vector<std::size_t>> shown(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& rows) {
  std::vector<report::GroupRow> made;
  for (const auto& [key, stack] : rows) {
    report::GroupRow row;
    row.key = key;
    row.stack = stack;
    made.push_back(row);
  }
  std::vector<const report::GroupRow*> pointers;
  for (const report::GroupRow& row : made) pointers.push_back(&row);
  return frames_shown(pointers);
}

TEST(StackFrames, python_outside_torch_is_shown) {
  EXPECT_THAT(shown({{"a", {kNative, kTorch, "/x/site-packages/einops/b.py:1 f", kUser}}}),
              ElementsAre(ElementsAre(2, 3)));
  EXPECT_THAT(shown({{"a", {"/home/u/torch/net.py:3 f", "<ipython-input-2-93c1>:1 <module>"}}}),
              ElementsAre(ElementsAre(0, 1)))
      << "neither a user's folder named torch nor a notebook is torch";
  EXPECT_THAT(shown({{"a", {kUser, "<frozen runpy>:88 _run_code"}}}), ElementsAre(ElementsAre(0)));
  EXPECT_THAT(shown({{"a", std::vector<std::string>(20, kUser)}}),
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)));
}

TEST(StackFrames, stacks_that_differ_only_in_torch_show_where) {
  EXPECT_THAT(shown({{"a", {kNative, kTorch, kUser}},
                     {"a", {kNative, kFunctional, kUser}},
                     {"b", {kNative, kFunctional, kUser}}}),
              ElementsAre(ElementsAre(1, 2), ElementsAre(1, 2), ElementsAre(2)));
}

TEST(StackFrames, stacks_of_native_code_alone_show_where_they_differ) {
  EXPECT_THAT(shown({{"[native]", {"?? malloc", "?? a"}},
                     {"[native]", {"?? malloc", "?? b"}},
                     {"[native]", {"?? malloc", "?? b", "?? c"}},
                     {"[native]", {}}}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1), ElementsAre(0, 1, 2), IsEmpty()));
}

TEST(StackFrames, stacks_that_differ_only_far_out_show_where) {
  std::vector<std::string> left(20, kUser);
  std::vector<std::string> right = left;
  left[15] = kTorch;
  right[15] = "/home/u/train.py:6 main";
  EXPECT_THAT(shown({{"a", left}, {"a", right}}),
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 15),
                          ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 15)));
}

// For any two different stacks, the innermost frame at which they differ is shown, in the stack
// that has it. No other frames are shown, because none is a Python frame.
TEST(StackFrames, of_any_two_stacks_the_first_difference_is_shown) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<std::string, std::vector<std::string>>> rows(2 + random() % 12);
    for (auto& [key, stack] : rows) {
      key = "a";
      stack.resize(random() % 6);
      for (std::string& frame : stack) frame = random() % 2 == 0 ? "?? f" : "?? g";
    }
    std::vector<std::vector<std::size_t>> expected(rows.size());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::vector<std::string>& stack = rows[row].second;
      std::set<std::size_t> differences;
      for (const auto& [key, other] : rows) {
        std::size_t at = 0;
        while (at < stack.size() && at < other.size() && stack[at] == other[at]) ++at;
        if (at < stack.size()) differences.insert(at);
      }
      expected[row].assign(differences.begin(), differences.end());
    }
    EXPECT_EQ(shown(rows), expected);
  }
}

}  // namespace
}  // namespace plimsoll::exporters
