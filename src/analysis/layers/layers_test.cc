#include "analysis/layers/layers.h"

#include <map>

#include <gtest/gtest.h>

#include "model/layers.h"
#include "model/live_set.h"
#include "tests/support/native_passes.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_pass.h"
#include "tests/support/timeline_pass.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::layers {
namespace {

using model::LifetimeFlags;
using model::Phase;
using report::LayerRow;
using tests::TraceMaker;

report::Tables run(const model::Trace& trace, const Options& options = {}) {
  return tests::run_passes(trace,
                           tests::passes(tests::timeline_pass(), tests::composition_pass(),
                                         tests::saved_pass(), make()),
                           options)
      .tables;
}

const LayerRow& row_of(const report::Tables& tables, const std::string& layer) {
  for (const LayerRow& row : tables.layers) {
    if (row.layer == layer) return row;
  }
  ADD_FAILURE() << "no row for " << layer;
  static const LayerRow kNothing;
  return kNothing;
}

// A model of two layers: one weight, one step, and the peak in backward.
model::Trace one_step() {
  TraceMaker maker;
  const auto weight = maker.tensor("Net.fc.weight");
  const auto state = maker.tensor("Net.fc.weight.exp_avg");
  maker
      .alloc_reported(1, 1000,
                      {.category = "parameter", .flags = LifetimeFlags::kAdopted, .tensor = weight})
      .alloc_reported(2, 400,
                      {.layer = "Net.fc",
                       .category = "activation",
                       .phase = Phase::kForward,
                       .flags = LifetimeFlags::kSavedForBackward})
      .alloc_reported(3, 300,
                      {.layer = "Net.fc", .category = "temporary", .phase = Phase::kForward})
      .free(3, 300)
      .alloc_reported(4, 200,
                      {.layer = "Net.act",
                       .category = "activation",
                       .phase = Phase::kForward,
                       .flags = LifetimeFlags::kSavedForBackward})
      .begin_backward()
      .alloc_reported(5, 1000,
                      {.category = "gradient", .phase = Phase::kBackward, .tensor = weight})  // 6
      .free(4, 200)
      .free(2, 400)
      .alloc_reported(
          6, 500,
          {.category = "optimizer_state", .phase = Phase::kOptimizer, .tensor = state})  // 11
      .alloc(7, 50);                                                                     // 12
  return maker.finish();
}

TEST(Layers, forward_backward_and_optimizer_are_side_by_side) {
  const auto tables = run(one_step());
  EXPECT_EQ(tables.points.at(0).live_bytes, 2600u) << "the peak is at the gradient";
  const auto& fc = row_of(tables, "Net.fc");
  EXPECT_EQ(fc.own.bytes, 2400u);
  EXPECT_EQ(fc.own.count, 3u);
  EXPECT_EQ(fc.own.forward_bytes, 400u);
  EXPECT_EQ(fc.own.backward_bytes, 1000u);
  EXPECT_EQ(fc.own.optimizer_bytes, 0u);
  EXPECT_EQ(fc.own.other_bytes, 1000u);
  EXPECT_EQ(fc.own.parameter_bytes, 1000u);
  EXPECT_EQ(fc.own.gradient_bytes, 1000u);
  EXPECT_EQ(fc.own.activation_bytes, 400u);
  EXPECT_EQ(fc.own.saved_bytes, 400u);
  const auto& net = row_of(tables, "Net");
  EXPECT_EQ(net.own.bytes, 0u);
  EXPECT_EQ(net.inclusive.bytes, 2600u);
  EXPECT_EQ(net.inclusive.activation_bytes, 600u);
  EXPECT_EQ(net.inclusive.saved_bytes, 600u);
  EXPECT_EQ(row_of(tables, "").own.bytes, 0u);
}

TEST(Layers, a_layer_has_its_own_peak) {
  const auto tables = run(one_step());
  const auto& fc = row_of(tables, "Net.fc");
  EXPECT_EQ(fc.own.peak_bytes, 2500u) << "when the optimizer made its state";
  EXPECT_EQ(fc.own.peak_event, 11u);
  EXPECT_EQ(fc.own.peak_time_ns, 1'011'000);
  const auto& act = row_of(tables, "Net.act");
  EXPECT_EQ(act.own.peak_bytes, 200u);
  EXPECT_EQ(act.own.peak_event, 5u);
  EXPECT_EQ(row_of(tables, "Net").inclusive.peak_bytes, 2600u);
  EXPECT_EQ(row_of(tables, "Net").inclusive.peak_event, 6u);
  EXPECT_EQ(row_of(tables, "Net").own.peak_bytes, 0u);
  EXPECT_FALSE(row_of(tables, "Net").own.peak_event.has_value());
  EXPECT_EQ(row_of(tables, "").own.peak_bytes, 50u);
}

TEST(Layers, a_file_without_layers_has_no_rows) {
  TraceMaker maker;
  maker.alloc(1, 10);
  EXPECT_TRUE(run(maker.finish()).layers.empty());
}

TEST(Layers, each_device_has_its_own_rows) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCpu, -1}).alloc_reported(1, 10, {.layer = "Net"});
  maker.on({model::DeviceType::kCuda, 0}).alloc_reported(1, 20, {.layer = "Net"});
  const auto trace = maker.finish();
  const auto tables = run(trace);
  ASSERT_EQ(tables.layers.size(), 4u);
  EXPECT_EQ(tables.layers[1].device, 0);
  EXPECT_EQ(tables.layers[1].own.bytes, 20u);
  EXPECT_EQ(tables.layers[3].own.bytes, 10u);
  Options options;
  options.device = model::Device{model::DeviceType::kCpu, -1};
  EXPECT_EQ(run(trace, options).layers.size(), 2u);
}

struct Slow {
  std::uint64_t own = 0;
  std::uint64_t inclusive = 0;
};

std::map<std::string, Slow> slow_layers(const model::Trace& trace, std::int64_t point) {
  const auto& device = trace.devices.at(0);
  model::Layers layers(trace);
  std::map<std::string, Slow> rows;
  for (const auto row : live_set(device, model::Liveness::kActive, point)) {
    const std::uint64_t size = trace.size_bytes(device, row);
    std::string path = layers.path(layers.of(device, row));
    rows[path].own += size;
    rows[path].inclusive += size;
    for (std::size_t dot = path.rfind('.'); dot != std::string::npos; dot = path.rfind('.')) {
      path.resize(dot);
      rows[path].inclusive += size;
    }
  }
  return rows;
}

TEST(Layers, random_traces_agree_with_the_definitions_at_every_event) {
  for (std::uint32_t seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto trace =
        tests::random_trace({.seed = seed,
                             .events = 150,
                             .reporting = tests::RandomTraceOptions::Reporting::kEverything});
    const auto tables = run(trace);
    const auto& point = tables.points.at(0);
    const std::int64_t now = point.event ? static_cast<std::int64_t>(*point.event) : -1;
    auto at_point = slow_layers(trace, now);
    std::map<std::string, Slow> peaks;
    for (std::int64_t event = -1; event < 150; ++event) {
      for (const auto& [path, bytes] : slow_layers(trace, event)) {
        peaks[path].own = std::max(peaks[path].own, bytes.own);
        peaks[path].inclusive = std::max(peaks[path].inclusive, bytes.inclusive);
      }
    }
    std::uint64_t sum = 0;
    for (const LayerRow& row : tables.layers) {
      SCOPED_TRACE(row.layer);
      EXPECT_EQ(row.own.bytes, at_point[row.layer].own);
      EXPECT_EQ(row.inclusive.bytes, at_point[row.layer].inclusive);
      EXPECT_EQ(row.own.peak_bytes, peaks[row.layer].own);
      EXPECT_EQ(row.inclusive.peak_bytes, peaks[row.layer].inclusive);
      for (const auto* side : {&row.own, &row.inclusive}) {
        EXPECT_EQ(side->bytes, side->forward_bytes + side->backward_bytes + side->optimizer_bytes +
                                   side->other_bytes);
      }
      sum += row.own.bytes;
    }
    EXPECT_EQ(sum, point.live_bytes);
    std::uint64_t saved = 0;
    for (const LayerRow& row : tables.layers) saved += row.own.saved_bytes;
    EXPECT_EQ(saved, tables.saved.at(0).bytes);
  }
}

}  // namespace
}  // namespace plimsoll::analysis::layers
