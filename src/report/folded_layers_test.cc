#include "report/folded_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::report {
namespace {

using testing::ElementsAre;

LayerRow row(const std::string& layer, std::uint64_t saved, std::uint64_t parameters = 0) {
  LayerRow made;
  made.layer = layer;
  made.inclusive.bytes = saved + parameters;
  made.inclusive.saved_bytes = saved;
  made.inclusive.parameter_bytes = parameters;
  made.inclusive.peak_bytes = saved;
  return made;
}

std::vector<std::string> names(const std::vector<LayerRow>& rows) {
  std::vector<std::string> found;
  for (const FoldedLayerRow& each : fold_layers(rows)) found.push_back(each.layer);
  return found;
}

constexpr std::uint64_t kMib = 1 << 20;

TEST(FoldedLayers, equal_blocks_are_one_row_and_so_are_the_layers_inside_them) {
  std::vector<LayerRow> rows = {row("", 1), row("Net", 30 * kMib), row("Net.head", 6 * kMib),
                                row("Net.blocks", 24 * kMib)};
  for (std::uint64_t i = 0; i < 12; ++i) {
    const std::string block = "Net.blocks." + std::to_string(i);
    rows.push_back(row(block, (2 + i % 2) * kMib, kMib));
    rows.push_back(row(block + ".mlp", kMib));
  }
  const auto folded = fold_layers(rows);
  EXPECT_THAT(names(rows), ElementsAre("", "Net", "Net.blocks", "Net.blocks.0…11",
                                       "Net.blocks.0…11.mlp", "Net.head"));
  EXPECT_EQ(folded[3].inclusive.saved_bytes, 30 * kMib);
  EXPECT_EQ(folded[3].inclusive.peak_bytes, 3 * kMib) << "of the largest";
  EXPECT_EQ(folded[3].smallest_bytes, 3 * kMib);
  EXPECT_EQ(folded[3].largest_bytes, 4 * kMib);
  EXPECT_EQ(folded[4].layers.size(), 12u);
  EXPECT_EQ(folded[4].layers[2], "Net.blocks.2.mlp") << "in natural order";
}

TEST(FoldedLayers, a_block_that_keeps_more_or_has_other_layers_inside_stays_visible) {
  std::vector<LayerRow> rows = {row("Net", 90 * kMib)};
  for (int i = 0; i < 7; ++i) {
    const std::string block = "Net." + std::to_string(i);
    rows.push_back(row(block, (i == 1 ? 40 : 2) * kMib, kMib));
    rows.push_back(row(block + (i == 4 ? ".cross" : ".self"), kMib));
  }
  EXPECT_THAT(names(rows), ElementsAre("Net", "Net.0, 2…3, 5…6", "Net.0, 2…3, 5…6.self", "Net.1",
                                       "Net.1.self", "Net.4", "Net.4.cross"));
}

TEST(FoldedLayers, layers_of_two_classes_are_two_rows) {
  std::vector<LayerRow> rows = {row("Net", 90 * kMib)};
  for (int i = 0; i < 5; ++i) {
    rows.push_back(row("Net." + std::to_string(i), kMib));
    rows.back().type = i % 2 == 0 ? "Conv2d" : "ReLU";
  }
  EXPECT_THAT(names(rows), ElementsAre("Net", "Net.0, 2, 4", "Net.1, 3"));
}

TEST(FoldedLayers, blocks_of_two_sizes_are_two_rows) {
  std::vector<LayerRow> rows;
  for (int i = 0; i < 6; ++i)
    rows.push_back(row("Net." + std::to_string(i), (i % 3 == 2 ? 9 : 2) * kMib));
  EXPECT_THAT(names(rows), ElementsAre("Net.0…1, 3…4", "Net.2, 5"));
}

TEST(FoldedLayers, the_layer_whose_backward_runs_is_equal_in_structure_only) {
  std::vector<LayerRow> rows;
  for (int i = 0; i < 4; ++i) rows.push_back(row("Net." + std::to_string(i), 2 * kMib));
  rows[2].inclusive.bytes = 9 * kMib;  // with the gradients of its activations
  rows[3].inclusive.bytes = 0;         // done
  EXPECT_THAT(names(rows), ElementsAre("Net.0…1", "Net.2", "Net.3"));
  EXPECT_EQ(fold_layers(rows, FoldedBy::kStructure).at(0).layer, "Net.0…3");
}

TEST(FoldedLayers, layers_with_other_parameters_are_not_equal) {
  EXPECT_THAT(names({row("Net.0", kMib, kMib), row("Net.1", kMib, 4 * kMib)}),
              ElementsAre("Net.0", "Net.1"));
}

TEST(FoldedLayers, two_layers_named_by_their_step_are_not_equal) {
  EXPECT_THAT(names({row("Net.fc1", kMib), row("Net.fc2", kMib)}),
              ElementsAre("Net.fc1", "Net.fc2"));
  EXPECT_THAT(names({row("Net.h1", kMib), row("Net.h2", kMib), row("Net.h3", kMib)}),
              ElementsAre("Net.h1…3"));
  EXPECT_THAT(names({row("Net.h1", kMib), row("Net.h2", kMib), row("Net.h5", kMib)}),
              ElementsAre("Net.h1", "Net.h2", "Net.h5"));
}

TEST(FoldedLayers, folds_may_be_inside_folds) {
  std::vector<LayerRow> rows;
  for (int i = 0; i < 2; ++i) {
    const std::string stage = "Net." + std::to_string(i);
    rows.push_back(row(stage, 6 * kMib));
    for (int j = 0; j < 3; ++j) rows.push_back(row(stage + "." + std::to_string(j), 2 * kMib));
  }
  EXPECT_THAT(names(rows), ElementsAre("Net.0…1", "Net.0…1.0…2"));
  EXPECT_EQ(fold_layers(rows)[1].layers.size(), 6u);
  EXPECT_EQ(fold_layers(rows)[1].inclusive.saved_bytes, 12 * kMib);
}

TEST(FoldedLayers, each_device_has_its_own_folds) {
  std::vector<LayerRow> rows = {row("Net.0", kMib), row("Net.1", kMib), row("Net.2", kMib)};
  rows[2].device = 1;
  EXPECT_THAT(names(rows), ElementsAre("Net.0…1", "Net.2"));
}

TEST(FoldedLayers, names_are_joined_if_their_numbers_follow_each_other) {
  EXPECT_THAT(ranges_of({"Net.0", "Net.1", "Net.2", "Net.4", "Net.head", "Other.5"}),
              ElementsAre("Net.0…2", "Net.4", "Net.head", "Other.5"));
  EXPECT_THAT(ranges_of({"Net.08", "Net.09", "Net.18446744073709551615"}),
              ElementsAre("Net.08", "Net.09", "Net.18446744073709551615"));
}

}  // namespace
}  // namespace plimsoll::report
