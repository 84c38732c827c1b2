#include "model/groupings.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/trace_maker.h"

namespace plimsoll::model {
namespace {

using tests::TraceMaker;
using Names = std::vector<std::string>;

constexpr Dimension kAllDimensions[] = {Dimension::kCategory, Dimension::kLayer, Dimension::kLine,
                                        Dimension::kOperator, Dimension::kPhase, Dimension::kStep,
                                        Dimension::kStream,   Dimension::kPool,  Dimension::kDtype,
                                        Dimension::kTensor};

// The names of the groups of all lifetimes, in order; none if there is no such grouping.
Names names(const Trace& trace, std::unique_ptr<Grouping> grouping) {
  if (!grouping) return {};
  Names all;
  for (std::size_t row = 0; row < trace.devices[0].lifetimes.size(); ++row) {
    all.push_back(grouping->name(grouping->group(row)));
  }
  return all;
}
Names names(const Trace& trace, Dimension dimension) {
  const UserLines lines(trace);
  return names(trace, make_grouping(trace, trace.devices[0], lines, dimension));
}

Trace reported() {
  TraceMaker maker;
  const StackId stack = maker.stack({{"/home/u/train.py", 7, "main"}});
  maker.alloc_reported(1, 10,
                       {.layer = "Net.blocks.0.mlp",
                        .category = "activation",
                        .phase = Phase::kForward,
                        .op = "aten::mm",
                        .tensor = maker.tensor("", "float32", "[2, 3]"),
                        .stack = stack});
  maker.step(4).alloc_reported(2, 10, {.layer = "Net", .category = "unknown"}).step(5);
  maker.alloc_reported(3, 10, {.flags = LifetimeFlags::kAdopted, .stack = kNoStack});
  maker.alloc_reported(4, 10, {.tensor = maker.tensor("w", "float32", "[2, 3]"), .stack = stack});
  maker.free_immediately(9, 10);
  return maker.finish();
}

TEST(Groupings, have_the_names_of_the_tables) {
  const Trace trace = reported();
  // The allocation known only by its free is the first lifetime.
  const std::string before = "[allocated before recording]";
  EXPECT_EQ(names(trace, Dimension::kCategory),
            (Names{"unknown", "activation", "unknown", "unknown", "unknown"}));
  EXPECT_EQ(names(trace, Dimension::kLayer),
            (Names{"[no layer]", "Net.blocks.0.mlp", "Net", "[no layer]", "[no layer]"}));
  EXPECT_EQ(names(trace, Dimension::kLine),
            (Names{before, "/home/u/train.py:7 (main)", "[no Python frame on this thread]", before,
                   "/home/u/train.py:7 (main)"}));
  EXPECT_EQ(names(trace, Dimension::kOperator),
            (Names{"[unknown]", "aten::mm", "[unknown]", "[unknown]", "[unknown]"}));
  EXPECT_EQ(names(trace, Dimension::kPhase), (Names{before, "forward", "other", "other", "other"}));
  EXPECT_EQ(names(trace, Dimension::kStep),
            (Names{before, "step 4 and before it", "step 5", "after step 5", "after step 5"}));
  EXPECT_EQ(names(trace, Dimension::kStream), Names(5, "stream 0"));
  EXPECT_EQ(names(trace, Dimension::kDtype),
            (Names{"[unknown]", "float32", "[unknown]", "[unknown]", "float32"}));
  EXPECT_EQ(names(trace, Dimension::kTensor),
            (Names{"[unknown]", "float32 [2, 3]", "[unknown]", "[unknown]", "w float32 [2, 3]"}));
}

TEST(Groupings, number_their_groups_in_order_of_first_use) {
  const Trace trace = reported();
  const UserLines lines(trace);
  const auto grouping = make_grouping(trace, trace.devices[0], lines, Dimension::kCategory);
  EXPECT_EQ(grouping->size(), 0u);
  EXPECT_EQ(grouping->group(1), 0u);  // activation
  EXPECT_EQ(grouping->group(4), 1u);
  EXPECT_EQ(grouping->group(2), 1u);
  EXPECT_EQ(grouping->group(1), 0u);
  EXPECT_EQ(grouping->size(), 2u);
}

TEST(Groupings, cut_layers_at_a_depth) {
  const Trace trace = reported();
  const auto at_depth = [&](std::size_t depth) {
    const auto grouping = make_layer_grouping(trace, trace.devices[0], depth);
    return grouping->name(grouping->group(1));
  };
  EXPECT_EQ(at_depth(1), "Net");
  EXPECT_EQ(at_depth(2), "Net.blocks");
  EXPECT_EQ(at_depth(4), "Net.blocks.0.mlp");
  EXPECT_EQ(at_depth(9), "Net.blocks.0.mlp");
}

TEST(Groupings, are_absent_if_the_recording_lacks_their_information) {
  TraceMaker maker;
  maker.alloc(1, 10);
  const Trace trace = maker.finish();
  const UserLines lines(trace);
  for (const Dimension dimension : kAllDimensions) {
    const bool is_always_known = dimension == Dimension::kLine ||
                                 dimension == Dimension::kOperator ||
                                 dimension == Dimension::kStream;
    EXPECT_EQ(make_grouping(trace, trace.devices[0], lines, dimension) != nullptr, is_always_known)
        << to_string(dimension);
  }
}

TEST(Groupings, by_category_are_absent_if_no_category_could_be_inferred) {
  TraceMaker maker;
  maker.alloc_reported(1, 10, {.category = "unknown"});
  Trace trace = maker.finish();
  trace.has_inferred_roles = true;
  EXPECT_EQ(names(trace, Dimension::kCategory), Names{});
  trace.has_inferred_roles = false;  // the recorder's own "unknown" is information
  EXPECT_EQ(names(trace, Dimension::kCategory), Names{"unknown"});
}

TEST(Groupings, by_pool_use_the_pool_of_the_segment_if_the_events_have_none) {
  TraceMaker maker;
  const PoolId pool = maker.builder().pool({0, 1});
  maker.alloc(64, 10).alloc(1'000, 10);
  maker.segment(0, 512, {TraceMaker::block(64, 16, 10)}, pool);
  EXPECT_EQ(names(maker.finish(), Dimension::kPool), (Names{"pool (0, 1)", "[pool not recorded]"}));
}

TEST(Groupings, by_pool_use_the_final_segment_of_an_address_unless_it_was_returned_since) {
  const auto pools = [](const std::function<void(TraceMaker&)>& change) {
    TraceMaker maker;
    const PoolId pool = maker.builder().pool({0, 1});
    maker.segment(0, 4096, {}, pool);
    maker.alloc(1024, 512).free(1024, 512);
    change(maker);
    maker.alloc(0, 512).free(0, 512);
    return names(maker.finish(), Dimension::kPool);
  };
  const Names known{"pool (0, 1)", "pool (0, 1)"};
  const Names unknown{"[pool not recorded]", "pool (0, 1)"};
  EXPECT_EQ(pools([](TraceMaker&) {}), known);
  EXPECT_EQ(pools([](TraceMaker& m) { m.event(Action::kSegmentFree, 0, 4096); }), unknown);
  EXPECT_EQ(pools([](TraceMaker& m) { m.event(Action::kSegmentUnmap, 0, 1024); }), known);
  EXPECT_EQ(pools([](TraceMaker& m) {
              m.event(Action::kSegmentFree, 0, 4096);
              m.event(Action::kSegmentUnmap, 2048, 512);
              m.event(Action::kSegmentUnmap, 512, 256);
            }),
            unknown);
  EXPECT_EQ(pools([](TraceMaker& m) { m.event(Action::kSegmentAlloc, 8192, 4096); }), known);
}

TEST(Groupings, have_names_for_their_dimensions) {
  for (const Dimension dimension : kAllDimensions) {
    EXPECT_EQ(dimension_named(to_string(dimension)), dimension);
  }
  EXPECT_FALSE(dimension_named("colour"));
}

}  // namespace
}  // namespace plimsoll::model
