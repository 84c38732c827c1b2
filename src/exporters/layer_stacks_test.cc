#include "exporters/layer_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/export_generated.h"
#include "tests/support/random_trace.h"

namespace plimsoll::tests {
namespace {

using exporters::LayerStack;
using exporters::LayerStacks;
using testing::ElementsAre;

std::vector<LayerStacks> stacks_of(const model::Trace& trace) {
  const model::UserLines lines(trace);
  const report::Report report = report_at_end(trace);
  return exporters::layer_stacks({trace, report, lines});
}

std::vector<std::string> folded(const LayerStacks& stacks) {
  std::vector<std::string> text;
  for (const LayerStack& row : stacks.rows) {
    text.emplace_back();
    for (const std::string& frame : row.frames) text.back() += frame + ";";
    text.back() += std::to_string(row.bytes);
  }
  return text;
}

TEST(LayerStacks, frames_are_layer_then_operator_then_line) {
  TraceMaker maker;
  const auto line = maker.stack({{"net.py", 7, "forward"}});
  maker.alloc_reported(1, 10, {.layer = "Net.fc", .op = "aten::linear", .stack = line})
      .alloc_reported(2, 5, {.layer = "Net.fc", .op = "aten::linear", .stack = line})
      .alloc_reported(3, 100,
                      {.category = "parameter",
                       .op = "aten::empty",
                       .tensor = maker.tensor("Net.fc.weight"),
                       .stack = line})
      .alloc(4, 1)
      .free(99, 7);
  const auto stacks = stacks_of(maker.finish());
  ASSERT_EQ(stacks.size(), 1u);
  EXPECT_EQ(stacks[0].point, "end");
  EXPECT_THAT(folded(stacks[0]), ElementsAre("Net;Net.fc;[parameter];net.py:7 (forward);100",
                                             "Net;Net.fc;aten::linear;net.py:7 (forward);15",
                                             "[no layer];[unknown];[no stack recorded];1"));
}

TEST(LayerStacks, rows_sum_to_live_bytes) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const auto trace = random_trace(
        {.seed = seed, .events = 200, .reporting = RandomTraceOptions::Reporting::kEverything});
    std::uint64_t live = 0;
    const auto& device = trace.devices.at(0);
    for (std::size_t row = 0; row < device.lifetimes.size(); ++row) {
      if (device.lifetimes.free_completed[row] == model::kNone) {
        live += trace.size_bytes(device, row);
      }
    }
    std::uint64_t sum = 0;
    const auto stacks = stacks_of(trace);
    for (const LayerStack& row : stacks.at(0).rows) sum += row.bytes;
    EXPECT_EQ(sum, live);
  }
}

}  // namespace
}  // namespace plimsoll::tests
