#include "analysis/holders/holders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "analysis/holders/chains.h"
#include "analysis/holders/edits.h"
#include "tests/support/holder_case.h"

namespace plimsoll::analysis::holders {
namespace {

using Case = tests::HolderCase;

std::vector<Holder> holders_in(const Case& of) {
  return holders_of(of.trace, HolderIndex(of.trace), of.trace.devices.at(0), of.lifetimes());
}

// __main__.trainer.losses, a list of losses with their graphs; and one tensor of model.weight.
struct Losses : Case {
  Losses() {
    const std::uint32_t main = root(PLIMSOLL_LINK_MODULE, "__main__");
    const std::uint32_t trainer = link(main, PLIMSOLL_LINK_ATTRIBUTE, "trainer", "Trainer");
    list = link(trainer, PLIMSOLL_LINK_ATTRIBUTE, "losses", "list", {}, 0, 12);
    const std::uint32_t item = link(list, PLIMSOLL_LINK_ITEM, {}, "Tensor");
    const std::uint32_t power = link(item, PLIMSOLL_LINK_GRAD_FN, {}, "PowBackward0");
    saved = link(power, PLIMSOLL_LINK_SAVED, "self", "Tensor");
    const std::uint32_t model = link(main, PLIMSOLL_LINK_ATTRIBUTE, "model", "Linear");
    weight = link(model, PLIMSOLL_LINK_ATTRIBUTE, "weight", "Parameter");
    hold(item, 12);
    hold(saved, 24);
    hold(weight, 1);
    hold(0, 5);
  }
  std::uint32_t list = 0, saved = 0, weight = 0;
};

TEST(Holders, are_where_the_chains_of_the_most_bytes_meet) {
  Losses losses;
  losses.cut({losses.list + 1, 0, 36, 3600, 0, 0, false});
  losses.finish();
  const std::vector<Holder> holders = holders_in(losses);
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[0].link, losses.list);
  EXPECT_EQ(holders[0].example, losses.saved);
  EXPECT_EQ(holders[0].count, 36u);
  EXPECT_EQ(holders[0].bytes, 3600u);
  ASSERT_NE(holders[0].cut, nullptr) << "the cut of all items is that of the container";
  EXPECT_EQ(holders[0].cut->freed_count, 36u);
  EXPECT_EQ(holders[1].link, losses.weight);
  EXPECT_EQ(holders[1].cut, nullptr);
}

TEST(Holders, that_no_walk_went_around_are_the_last_container) {
  Losses losses;
  losses.finish();
  EXPECT_EQ(holders_in(losses)[0].link, losses.list);
}

TEST(Holders, of_several_walks_are_one) {
  Case two;
  std::uint32_t last = 0;
  for (int walk = 0; walk < 2; ++walk) {
    const std::uint32_t main = two.root(PLIMSOLL_LINK_MODULE, "__main__");
    const std::uint32_t list = two.link(main, PLIMSOLL_LINK_ATTRIBUTE, "losses", "list");
    two.hold(two.link(list, PLIMSOLL_LINK_ITEM), 3);
    last = list;
  }
  two.finish();
  ASSERT_EQ(holders_in(two).size(), 1u);
  EXPECT_EQ(holders_in(two)[0].link, last);
  EXPECT_EQ(holders_in(two)[0].count, 6u);
}

// Two walks find `outer`, a list of dicts of tensors, with these lengths. Returns the name of the
// holder of what the last one finds.
std::string holder_of_nested(std::uint64_t outer_before, std::uint64_t outer,
                             std::uint64_t inner_before, std::uint64_t inner) {
  Case nested;
  std::uint32_t last = 0;
  for (const bool is_first : {true, false}) {
    if (!is_first) nested.begin_walk();
    const auto main = nested.root(PLIMSOLL_LINK_MODULE, "__main__");
    const auto list = nested.link(main, PLIMSOLL_LINK_ATTRIBUTE, "outer", "list", {}, 0,
                                  is_first ? outer_before : outer);
    const auto dict =
        nested.link(list, PLIMSOLL_LINK_ITEM, {}, "dict", {}, 0, is_first ? inner_before : inner);
    last = nested.link(dict, PLIMSOLL_LINK_ITEM, {}, "Tensor");
    if (!is_first) nested.cut({dict, 0, 5, 500, 0, 0, false});
    if (!is_first) nested.cut({last, 0, 5, 500, 0, 0, false});
  }
  nested.hold(last, 5);
  nested.finish();
  return path_text(nested.trace, holders_in(nested).at(0).link);
}

TEST(Holders, of_nested_containers_are_the_outermost_that_gets_longer) {
  EXPECT_EQ(holder_of_nested(3, 9, 20, 20), "outer") << "as checkpoints in a list";
  EXPECT_EQ(holder_of_nested(3, 9, 2, 20), "outer");
  EXPECT_EQ(holder_of_nested(4, 4, 2, 20), "outer[*]") << "as a cache in each layer";
  EXPECT_EQ(holder_of_nested(4, 4, 20, 20), "outer") << "nothing grows";
}

TEST(Holders, that_a_function_has_at_another_line_are_the_same) {
  Case two;
  for (const std::uint32_t line : {40u, 41u}) {
    if (line == 41) two.begin_walk();
    const auto frame = two.root(PLIMSOLL_LINK_FRAME, "train", "/home/a/train.py", line);
    const auto list = two.link(frame, PLIMSOLL_LINK_LOCAL, "kept", "list", {}, 0, line);
    two.hold(two.link(list, PLIMSOLL_LINK_ITEM), 3);
  }
  two.finish();
  const std::vector<Holder> holders = holders_in(two);
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_EQ(holders[0].count, 6u);
  EXPECT_TRUE(holders[0].has_grown);
}

TEST(Holders, are_called_as_the_program_calls_them) {
  Losses losses;
  losses.finish();
  EXPECT_EQ(path_text(losses.trace, losses.list), "trainer.losses");
  EXPECT_EQ(path_text(losses.trace, losses.saved), "trainer.losses[*]");
  EXPECT_EQ(chain_text(losses.trace, losses.saved),
            "trainer.losses[*] → PowBackward0 → saved self");
}

// A model with two layers, of which one keeps a tensor that is no part of it.
TEST(Holders, of_parameters_are_the_whole_model) {
  Case c;
  const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
  const auto net = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "net", "Net");
  std::uint32_t layer = 0;
  for (const char* name : {"fc", "head"}) {
    layer = c.link(net, PLIMSOLL_LINK_PART, name, "Linear");
    const auto parameter = c.link(layer, PLIMSOLL_LINK_PART, "bias", "Parameter");
    c.hold(c.link(parameter, PLIMSOLL_LINK_GRADIENT, {}, "Tensor"), 3);
  }
  const auto cache = c.link(layer, PLIMSOLL_LINK_ATTRIBUTE, "cache", "Tensor");
  c.hold(cache, 2);
  c.finish();
  const std::vector<Holder> holders = holders_in(c);
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(path_text(c.trace, holders[0].link), "net");
  EXPECT_EQ(holders[0].count, 6u);
  EXPECT_EQ(edit_text(c.trace, holders[0]),
            "Set the .grad of the tensors in net to None after their last use.");
  EXPECT_EQ(path_text(c.trace, holders[1].link), "net.head.cache");
}

// `make` adds the links of one chain, and returns the last of them.
void expect_edit(std::uint32_t (*make)(Case&), const std::string& chain, const std::string& edit) {
  Case one;
  const std::uint32_t last = make(one);
  one.hold(last, 3);
  one.finish();
  const std::vector<Holder> holders = holders_in(one);
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_EQ(chain_text(one.trace, last), chain);
  EXPECT_EQ(edit_text(one.trace, holders[0]), edit);
}

TEST(Edits, of_entries_alone_say_what_to_store_instead) {
  const auto edit_of = [](bool has_graph) {
    Case c;
    const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
    const auto list = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "kept", "list", {}, 0, 3);
    const auto item = c.link(list, PLIMSOLL_LINK_ITEM, {}, "Tensor");
    const auto node = has_graph ? c.link(item, PLIMSOLL_LINK_GRAD_FN, {}, "MeanBackward0") : item;
    c.hold(node, 3);
    c.finish();
    return edit_text(c.trace, holders_in(c).at(0), "Instead, store sums.");
  };
  EXPECT_THAT(edit_of(false), testing::EndsWith("the newest entries. Instead, store sums."));
  EXPECT_THAT(edit_of(true), testing::EndsWith("it keeps the graph of its forward."));
}

TEST(Edits, follow_from_graphs_and_memory) {
  expect_edit(
      [](Case& c) {
        const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
        const auto list = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "losses", "list", {}, 0, 3);
        const auto item = c.link(list, PLIMSOLL_LINK_ITEM, {}, "Tensor");
        const auto node = c.link(item, PLIMSOLL_LINK_GRAD_FN, {}, "MeanBackward0");
        const auto other = c.link(node, PLIMSOLL_LINK_NODE, {}, "AddmmBackward0");
        return c.link(other, PLIMSOLL_LINK_SAVED, "mat1", "Tensor");
      },
      "losses[*] → MeanBackward0 → … → AddmmBackward0 → saved mat1",
      "Add x.detach(), or x.item(), to losses instead of the tensor x: it keeps the graph of its "
      "forward.");
  expect_edit(
      [](Case& c) {
        const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
        const auto sum = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "total", "Tensor");
        const auto node = c.link(sum, PLIMSOLL_LINK_GRAD_FN, {}, "AddBackward0");
        return c.link(node, PLIMSOLL_LINK_SAVED, "self", "Tensor");
      },
      "total → AddBackward0 → saved self",
      "Detach what total keeps (.detach(), .item()): it keeps the graph that made it.");
  expect_edit(
      [](Case& c) {
        const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
        const auto views = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "views", "dict", {}, 0, 9);
        const auto item = c.link(views, PLIMSOLL_LINK_ITEM, "first", "Tensor");
        return c.link(item, PLIMSOLL_LINK_BASE);
      },
      "views['first'] → memory that it shares",
      "Store copies (.clone()) in views['first']: views keep the whole memory that they share.");
  expect_edit(
      [](Case& c) {
        const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
        const auto rows = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "rows", "list", {}, 0, 9);
        const auto item = c.link(rows, PLIMSOLL_LINK_ITEM, "*", "ndarray");
        return c.link(item, PLIMSOLL_LINK_BASE);
      },
      "rows['*'] → memory that it shares", "Remove rows['*'] after its last use (del).");
}

TEST(Edits, of_hooks_exceptions_and_caches) {
  expect_edit(
      [](Case& c) {
        const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
        const auto model = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "model", "Net");
        const auto hooks = c.link(model, PLIMSOLL_LINK_HOOK, "_forward_hooks", "OrderedDict");
        const auto item = c.link(hooks, PLIMSOLL_LINK_ITEM, {}, "keep", "probe.py", 12);
        return c.link(item, PLIMSOLL_LINK_CLOSURE, "big", "Tensor");
      },
      "model._forward_hooks[*], closure variable big",
      "Call remove() on the handle of the hook keep (probe.py:12), which model._forward_hooks "
      "keeps.");
  expect_edit(
      [](Case& c) {
        const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
        const auto list = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "errors", "list", {}, 0, 3);
        const auto error = c.link(list, PLIMSOLL_LINK_ITEM, {}, "ValueError");
        const auto traceback =
            c.link(error, PLIMSOLL_LINK_TRACEBACK, "step", "traceback", "/home/a/train.py", 40);
        return c.link(traceback, PLIMSOLL_LINK_LOCAL, "activations", "Tensor");
      },
      "errors[*].__traceback__: local activations of step (train.py:40)",
      "Store str(error) instead of the exception in errors: its traceback keeps the locals of step "
      "(train.py:40).");
  expect_edit(
      [](Case& c) {
        const auto error = c.root(PLIMSOLL_LINK_EXCEPTION);
        const auto traceback =
            c.link(error, PLIMSOLL_LINK_TRACEBACK, "step", "traceback", "/home/a/train.py", 40);
        return c.link(traceback, PLIMSOLL_LINK_LOCAL, "activations", "Tensor");
      },
      "the exception being handled.__traceback__: local activations of step (train.py:40)",
      "Leave the except block before you allocate again: the exception is kept until then, and its "
      "traceback keeps the locals of step (train.py:40).");
  expect_edit(
      [](Case& c) {
        const auto other = c.root(PLIMSOLL_LINK_MODULE, "masks");
        const auto cache = c.link(other, PLIMSOLL_LINK_ATTRIBUTE, "mask", "_lru_cache_wrapper");
        return c.link(cache, PLIMSOLL_LINK_ITEM, {}, "Tensor");
      },
      "masks.mask[*]",
      "Pass a small maxsize to the lru_cache of masks.mask, or call its cache_clear().");
}

TEST(Edits, leave_what_is_used_again) {
  Case c;
  const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
  const auto list = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "kept", "list", {}, 0, 3);
  c.hold(c.link(list, PLIMSOLL_LINK_ITEM, {}, "Tensor"), 4);
  c.finish();
  Holder holder = holders_in(c).at(0);
  holder.used_again = 199;
  EXPECT_THAT(edit_text(c.trace, holder), testing::StartsWith("Remove from kept"));
  holder.used_again = 200;
  EXPECT_EQ(edit_text(c.trace, holder), "");
}

TEST(Edits, of_containers_and_variables) {
  expect_edit(
      [](Case& c) {
        const auto frame = c.root(PLIMSOLL_LINK_FRAME, "train", "/home/a/train.py", 40);
        const auto list = c.link(frame, PLIMSOLL_LINK_LOCAL, "kept", "list", {}, 0, 9);
        return c.link(list, PLIMSOLL_LINK_ITEM, {}, "Tensor");
      },
      "kept[*] in train (train.py:40)",
      "Remove from kept in train (train.py:40) what is no longer needed, or bound it: "
      "collections.deque(maxlen=…) keeps the newest entries.");
  expect_edit(
      [](Case& c) {
        const auto frame = c.root(PLIMSOLL_LINK_FRAME, "train", "/home/a/train.py", 40);
        return c.link(frame, PLIMSOLL_LINK_LOCAL, "batch", "Tensor");
      },
      "batch in train (train.py:40)",
      "Delete batch in train (train.py:40) after its last use (del batch).");
  expect_edit(
      [](Case& c) {
        const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
        const auto queue = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "replay", "deque", {}, 0, 9, 50);
        return c.link(queue, PLIMSOLL_LINK_ITEM, {}, "Tensor");
      },
      "replay[*]", "Make replay shorter, if it may keep fewer than 50 entries.");
  expect_edit(
      [](Case& c) {
        const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
        const auto queue = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "waiting", "Queue", {}, 0, 9);
        const auto deque = c.link(queue, PLIMSOLL_LINK_ATTRIBUTE, "queue", "deque", {}, 0, 9);
        return c.link(deque, PLIMSOLL_LINK_ITEM, {}, "Tensor");
      },
      "waiting.queue[*]",
      "Take entries out of waiting as fast as they are put in, or give it a maxsize: put() then "
      "waits.");
  expect_edit(
      [](Case& c) {
        const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
        const auto dict = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "cache", "OrderedDict", {}, 0, 9);
        return c.link(dict, PLIMSOLL_LINK_ITEM, {}, "Tensor");
      },
      "cache[*]", "Remove entries from cache after their last use (pop).");
  expect_edit(
      [](Case& c) {
        const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
        const auto bag = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "bag", "mylist", {}, 0, 9);
        return c.link(bag, PLIMSOLL_LINK_ITEM, {}, "Tensor");
      },
      "bag[*]", "Remove from bag what is no longer needed.");
  expect_edit(
      [](Case& c) {
        const auto main = c.root(PLIMSOLL_LINK_MODULE, "__main__");
        const auto function = c.link(main, PLIMSOLL_LINK_ATTRIBUTE, "add", "function");
        return c.link(c.link(function, PLIMSOLL_LINK_DEFAULT, "kept", "list", {}, 0, 9),
                      PLIMSOLL_LINK_ITEM, {}, "Tensor");
      },
      "add, default of kept[*]",
      "Give kept the default None, and make its value inside the function: a default lives as long "
      "as its function.");
  expect_edit([](Case& c) { return c.root(PLIMSOLL_LINK_NATIVE, {}); }, "native code", "");
}

TEST(Holders, of_cpp_programs_have_names_without_those_of_variables) {
  Case cpp;
  const auto lost = cpp.root(PLIMSOLL_LINK_LOST, {});
  const auto main = cpp.root(PLIMSOLL_LINK_FRAME, "main", "/src/train.cc", 40);
  const auto local = cpp.link(main, PLIMSOLL_LINK_LOCAL);
  const auto net = cpp.link(local, PLIMSOLL_LINK_OTHER, {}, "NetImpl");
  const auto seen = cpp.link(net, PLIMSOLL_LINK_ITEM, {}, "Tensor");
  cpp.hold(lost, 9);
  cpp.hold(seen, 5);
  cpp.hold(local, 1);
  cpp.finish();
  const auto holders = holders_in(cpp);
  ASSERT_EQ(holders.size(), 3u);
  EXPECT_EQ(path_text(cpp.trace, holders[0].link), "a pointer that the program has lost");
  EXPECT_EQ(edit_text(cpp.trace, holders[0]),
            "Delete what new has made, or keep it in a std::unique_ptr.");
  EXPECT_EQ(chain_text(cpp.trace, holders[1].example),
            "a local variable → NetImpl[*] in main (train.cc:40)");
  EXPECT_EQ(path_text(cpp.trace, holders[2].link), "a local variable in main (train.cc:40)");
  EXPECT_EQ(edit_text(cpp.trace, holders[2]),
            "End the scope of a local variable in main (train.cc:40) earlier, or clear it.");
}

}  // namespace
}  // namespace plimsoll::analysis::holders
