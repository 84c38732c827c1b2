#include "exporters/speedscope/speedscope_exporter.h"

#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "exporters/speedscope/allocation_samples.h"
#include "tests/conformance/exporter_suite.h"
#include "tests/support/json_text.h"

namespace plimsoll::tests {
namespace {

using exporters::speedscope::allocation_samples;
using exporters::speedscope::Sample;

// Checks the relevant rules of speedscope's file-format-schema.json, and the sums.
std::string speedscope_flaw(std::string_view text) {
  if (std::string flaw = json_flaw(text); !flaw.empty()) return flaw;
  const auto document = parsed_json(text);
  for (const char* key : {"$schema", "shared", "profiles"}) {
    if (!document.has(key)) return std::string("no ") + key;
  }
  const auto& frames = document["shared"]["frames"];
  for (const auto& frame : frames.items) {
    if (!frame["name"].is_string()) return "a frame without a name";
  }
  if (document["profiles"].items.empty()) return "speedscope opens no file without a profile";
  for (const auto& profile : document["profiles"].items) {
    if (!profile["name"].is_string()) return "a profile without a name";
    const bool is_over_time = profile["name"].text.ends_with("memory over time");
    const std::string_view unit = is_over_time ? "nanoseconds" : "bytes";
    if (profile["type"].text != "sampled" || profile["unit"].text != unit) return "type or unit";
    if (profile["samples"].size() != profile["weights"].size()) return "samples without weights";
    double total = 0;
    for (const auto& weight : profile["weights"].items) total += weight.number();
    if (total != profile["endValue"].number()) return "endValue is not the sum";
    if (profile["startValue"].number() != 0) return "startValue";
    for (const auto& sample : profile["samples"].items) {
      if (sample.items.empty()) return "a sample without a stack";
      for (const auto& frame : sample.items) {
        if (static_cast<std::size_t>(frame.integer()) >= frames.size())
          return "a sample with a frame that is not there";
      }
    }
  }
  return {};
}

INSTANTIATE_TEST_SUITE_P(Speedscope, ExporterSuite,
                         testing::Values(ExporterCase{exporters::speedscope::make,
                                                      speedscope_flaw}));

std::string stack_text(const JsonValue& document, unsigned profile, unsigned sample) {
  std::string text;
  for (const auto& frame : document["profiles"][profile]["samples"][sample].items) {
    text += std::string(text.empty() ? "" : ";") +
            document["shared"]["frames"][static_cast<std::size_t>(frame.integer())]["name"].text;
  }
  return text;
}

TEST(SpeedscopeExporter, each_device_has_a_live_set_profile_and_one_over_time) {
  TraceMaker maker;
  const auto first = maker.stack({{"a.py", 2, "leaf"}, {"a.py", 9, "root"}});
  const auto second = maker.stack({{"b.py", 3, "other"}, {"a.py", 9, "root"}});
  maker.alloc(0x1000, 10, first).free(0x1000, 10).alloc(0x2000, 5, second).alloc(0x3000, 7);
  const auto document = parsed_json(exported(*exporters::speedscope::make(), maker.finish()));

  ASSERT_EQ(document["profiles"].size(), 3u);
  const auto& usage = document["profiles"][0];
  EXPECT_EQ(usage["name"].text, "cuda:0, memory over time");
  EXPECT_EQ(usage["endValue"].integer(), 4'000) << "from the first event to the last";
  EXPECT_EQ(stack_text(document, 0, 0).substr(0, 50),
            "in use: up to 10 B;[no layer], 1 B;[no layer], 2 B");

  const auto& live = document["profiles"][1];
  EXPECT_EQ(live["name"].text, "cuda:0, live at end");
  EXPECT_EQ(live["endValue"].integer(), 12);
  EXPECT_EQ(live["weights"][0].integer(), 7);
  EXPECT_EQ(stack_text(document, 1, 0), "[no stack recorded]");
  EXPECT_EQ(stack_text(document, 1, 1), "root;other");

  const auto& over_time = document["profiles"][2];
  EXPECT_EQ(over_time["name"].text, "cuda:0, allocations over time");
  EXPECT_EQ(over_time["endValue"].integer(), 22);
  EXPECT_EQ(stack_text(document, 2, 0), "root;leaf");
  EXPECT_EQ(stack_text(document, 2, 1), "root;other");
  EXPECT_EQ(stack_text(document, 2, 2), "[no stack recorded]");
  std::size_t placed = 0;
  for (const auto& frame : document["shared"]["frames"].items) {
    EXPECT_EQ(frame.has("file"), frame.has("line"));
    placed += frame.has("file") ? 1 : 0;
  }
  EXPECT_EQ(placed, 3u);
}

TEST(SpeedscopeExporter, a_trace_with_layers_shows_live_memory_by_layer) {
  TraceMaker maker;
  const auto line = maker.stack({{"net.py", 7, "forward"}});
  maker.alloc_reported(1, 30, {.layer = "Net.fc", .op = "aten::linear", .stack = line});
  maker.alloc_reported(2, 10, {.layer = "Net", .op = "aten::relu", .stack = line});
  const std::string text = exported(*exporters::speedscope::make(), maker.finish());
  EXPECT_EQ(speedscope_flaw(text), "");
  const auto document = parsed_json(text);
  ASSERT_EQ(document["profiles"].size(), 4u);
  EXPECT_EQ(document["profiles"][1]["name"].text, "cuda:0, live at end by layer");
  EXPECT_EQ(document["profiles"][1]["endValue"].integer(), 40);
  EXPECT_EQ(stack_text(document, 1, 0), "Net;Net.fc;aten::linear;net.py:7 (forward)");
  EXPECT_EQ(stack_text(document, 1, 1), "Net;aten::relu;net.py:7 (forward)");
}

TEST(AllocationSamples, many_allocations_are_summed_in_windows) {
  TraceMaker maker;
  const auto a = maker.stack({{"a.py", 1, "a"}});
  const auto b = maker.stack({{"b.py", 1, "b"}});
  for (std::uint64_t i = 0; i < 16; ++i) maker.alloc(0x1000 + i, 1, i % 2 == 0 ? a : b);
  const model::Trace trace = maker.finish();
  EXPECT_EQ(allocation_samples(trace, trace.devices[0], 16).size(), 16u);

  const std::vector<Sample> fewer = allocation_samples(trace, trace.devices[0], 4);
  ASSERT_EQ(fewer.size(), 4u);  // two windows of eight
  EXPECT_EQ(fewer[0].stack, a);
  EXPECT_EQ(fewer[1].stack, b);
  for (const Sample& sample : fewer) EXPECT_EQ(sample.bytes, 4u);

  EXPECT_EQ(allocation_samples(trace, trace.devices[0], 1).size(), 2u) << "two distinct stacks";
}

}  // namespace
}  // namespace plimsoll::tests
