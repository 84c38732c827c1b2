#include "analysis/holders/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/finding.h"
#include "model/live_set.h"
#include "model/user_line.h"
#include "tests/support/holder_case.h"

namespace plimsoll::analysis::holders {
namespace {

using report::HolderRow;
using testing::ElementsAre;
using Case = tests::HolderCase;

std::vector<HolderRow> tree_of(const Case& of) {
  const model::DeviceTrace& device = of.trace.devices.at(0);
  const model::UserLines lines(of.trace);
  const auto last = static_cast<std::int64_t>(device.events.size()) - 1;
  return holder_tree(of.trace, device, model::live_allocations(of.trace, device, lines, last),
                     last);
}

// "  history list of 12: 3,600 in 36"
std::vector<std::string> texts_of(const std::vector<HolderRow>& rows) {
  std::vector<std::string> texts;
  for (const HolderRow& row : rows) {
    const std::string type = holder_type_text(row.type, row.length, row.limit);
    texts.push_back(std::string(2 * row.depth, ' ') + row.name + (type.empty() ? "" : " ") + type +
                    ": " + std::to_string(row.bytes) + " in " + std::to_string(row.count));
  }
  return texts;
}

TEST(HolderTree, goes_from_the_roots_to_containers_and_graphs) {
  Case one;
  const auto main = one.root(PLIMSOLL_LINK_MODULE, "__main__");
  const auto trainer = one.link(main, PLIMSOLL_LINK_ATTRIBUTE, "trainer", "Trainer");
  const auto list = one.link(trainer, PLIMSOLL_LINK_ATTRIBUTE, "history", "list", {}, 0, 12);
  const auto item = one.link(list, PLIMSOLL_LINK_ITEM, {}, "Tensor");
  const auto power = one.link(item, PLIMSOLL_LINK_GRAD_FN, {}, "PowBackward0");
  const auto saved = one.link(power, PLIMSOLL_LINK_SAVED, "self", "Tensor");
  const auto net = one.link(main, PLIMSOLL_LINK_ATTRIBUTE, "net", "Net");
  const auto weight = one.link(net, PLIMSOLL_LINK_PART, "weight", "Parameter");
  const auto bias = one.link(net, PLIMSOLL_LINK_PART, "bias", "Parameter");
  one.hold(item, 12);
  one.hold(saved, 24);
  one.hold(weight, 3);
  one.hold(bias, 1);
  one.hold(0, 5);
  one.cut({item, 0, 36, 3600, 0, 0, false});
  one.finish();
  const std::vector<HolderRow> rows = tree_of(one);
  EXPECT_THAT(texts_of(rows),
              ElementsAre("module __main__: 4000 in 40",                //
                          "  trainer.history list of 12: 3600 in 36",   //
                          "    PowBackward0 → saved self: 2400 in 24",  //
                          "  net Net: 400 in 4",                        //
                          "    weight Parameter: 300 in 3",             //
                          "    bias Parameter: 100 in 1"));
  EXPECT_TRUE(rows[1].is_cut) << "the cut of all items is that of the container";
  EXPECT_EQ(rows[1].freed_bytes, 3600u);
  EXPECT_EQ(rows[1].path, "trainer.history");
  EXPECT_EQ(rows[4].path, "net.weight");
}

TEST(HolderTree, merges_walks_by_name_and_says_where_functions_are) {
  Case two;
  for (const std::uint64_t length : {16u, 32u}) {
    const auto frame = two.root(PLIMSOLL_LINK_FRAME, "train", "/home/a/train.py", 40);
    const auto list = two.link(frame, PLIMSOLL_LINK_LOCAL, "kept", "list", {}, 0, length);
    two.hold(two.link(list, PLIMSOLL_LINK_ITEM, {}, "Tensor"), 16);
    const auto hooks = two.link(frame, PLIMSOLL_LINK_LOCAL, "hooks", "list", {}, 0, 1);
    const auto hook = two.link(hooks, PLIMSOLL_LINK_ITEM, {}, "keep", "/home/a/probe.py", 12);
    two.hold(two.link(hook, PLIMSOLL_LINK_CLOSURE, "big", "Tensor"), 2);
  }
  two.finish();
  const std::vector<HolderRow> rows = tree_of(two);
  EXPECT_THAT(texts_of(rows),
              ElementsAre("function train (train.py:40): 3600 in 36",  //
                          "  kept list of 32: 3200 in 32",             //
                          "  hooks[*], closure variable big Tensor: 400 in 4"));
  EXPECT_EQ(rows[2].place, "keep (probe.py:12)");
}

TEST(HolderTree, sums_what_is_small_or_too_much) {
  Case many;
  const auto main = many.root(PLIMSOLL_LINK_MODULE, "__main__");
  for (int i = 0; i < 30; ++i) {
    many.hold(many.link(main, PLIMSOLL_LINK_ATTRIBUTE, "x" + std::to_string(i), "Tensor"), 1);
  }
  many.finish();
  const std::vector<HolderRow> rows = tree_of(many);
  ASSERT_EQ(rows.size(), 14u);
  EXPECT_EQ(rows[13].name, "[other: 18 groups]");
  EXPECT_EQ(rows[13].bytes, 1800u);
  EXPECT_EQ(rows[13].depth, 1u);
}

TEST(HolderTree, of_a_chain_of_any_length_is_shallow) {
  Case deep;
  std::uint32_t last = deep.root(PLIMSOLL_LINK_MODULE, "__main__");
  for (int i = 0; i < 2000; ++i) {
    last = deep.link(last, PLIMSOLL_LINK_ATTRIBUTE, "next" + std::to_string(i), "Node");
    deep.hold(last, 1);
  }
  deep.finish();
  const std::vector<HolderRow> rows = tree_of(deep);
  EXPECT_EQ(rows.size(), 13u);
  EXPECT_EQ(rows[0].bytes, 200'000u);
  EXPECT_EQ(rows[12].depth, 12u);
}

TEST(HolderTree, is_empty_if_no_walk_reached_the_memory) {
  Case none;
  none.hold(0, 3);
  none.finish();
  EXPECT_TRUE(tree_of(none).empty());
}

}  // namespace
}  // namespace plimsoll::analysis::holders
