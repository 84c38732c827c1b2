#include "model/layers.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::model {
namespace {

using tests::TraceMaker;

TEST(Layers, an_allocation_belongs_to_the_layer_that_ran) {
  TraceMaker maker;
  maker.alloc_reported(1, 10, {.layer = "Net.down.0.conv"}).alloc(2, 10);
  const Trace trace = maker.finish();
  Layers layers(trace);
  const LayerId conv = layers.of(trace.devices.at(0), 0);
  EXPECT_EQ(layers.path(conv), "Net.down.0.conv");
  EXPECT_EQ(layers.path(layers.parent(conv)), "Net.down.0");
  EXPECT_EQ(layers.parent(layers.named("Net")), kNoLayer);
  EXPECT_EQ(layers.of(trace.devices.at(0), 1), kNoLayer);
  EXPECT_EQ(layers.size(), 5u);
  EXPECT_LT(layers.parent(conv), conv);
}

TEST(Layers, memory_owned_by_a_module_belongs_to_its_owner) {
  TraceMaker maker;
  const auto weight = maker.tensor("Net.fc.weight");
  const auto average = maker.tensor("Net.fc.weight.exp_avg");
  const auto grad = maker.tensor("Net.fc.weight.grad");
  const auto mean = maker.tensor("Net.bn.running_mean");
  const auto nameless = maker.tensor("");
  maker.alloc_reported(1, 1, {.category = "parameter", .tensor = weight})
      .alloc_reported(2, 1, {.category = "optimizer_state", .tensor = average})
      .alloc_reported(3, 1, {.layer = "Net.relu", .category = "gradient", .tensor = grad})
      .alloc_reported(4, 1, {.layer = "Net.relu", .category = "gradient", .tensor = weight})
      .alloc_reported(5, 1, {.category = "buffer", .tensor = mean})
      .alloc_reported(6, 1, {.layer = "Net.relu", .category = "activation", .tensor = weight})
      .alloc_reported(7, 1, {.layer = "Net.relu", .category = "gradient", .tensor = nameless});
  const Trace trace = maker.finish();
  Layers layers(trace);
  const auto path = [&](std::size_t event) {
    return layers.path(layers.of(trace.devices.at(0), event));
  };
  for (const std::size_t event : {0U, 1U, 2U, 3U}) EXPECT_EQ(path(event), "Net.fc") << event;
  EXPECT_EQ(path(4), "Net.bn");
  EXPECT_EQ(path(5), "Net.relu");
  EXPECT_EQ(path(6), "Net.relu") << "without a name, the layer that ran";
}

TEST(Layers, state_of_an_unnamed_parameter_loses_two_name_parts) {
  TraceMaker maker;
  maker.alloc_reported(
      1, 1, {.layer = "x", .category = "optimizer_state", .tensor = maker.tensor("a.b.c")});
  maker.alloc_reported(2, 1, {.category = "gradient", .tensor = maker.tensor("loose")});
  const Trace trace = maker.finish();
  Layers layers(trace);
  EXPECT_EQ(layers.path(layers.of(trace.devices.at(0), 0)), "a");
  EXPECT_EQ(layers.of(trace.devices.at(0), 1), kNoLayer);
}

TEST(Layers, absurdly_deep_paths_become_few_layers) {
  TraceMaker maker;
  maker.alloc_reported(1, 1, {.layer = std::string(100'000, '.')});
  maker.alloc_reported(2, 1, {.layer = "..a..b."});
  const Trace trace = maker.finish();
  Layers layers(trace);
  EXPECT_EQ(layers.path(layers.of(trace.devices.at(0), 0)).size(), 100'000u);
  EXPECT_EQ(layers.path(layers.of(trace.devices.at(0), 1)), "..a..b.");
  EXPECT_LT(layers.size(), 100u);
}

}  // namespace
}  // namespace plimsoll::model
