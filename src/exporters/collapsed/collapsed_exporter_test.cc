#include "exporters/collapsed/collapsed_exporter.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "exporters/collapsed/collapsed_layers_exporter.h"
#include "tests/conformance/exporter_suite.h"

namespace plimsoll::tests {
namespace {

// Returns the first line that is not frames, a space and a number; empty if there is none.
std::string folded_flaw(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return "the last line does not end";
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const std::size_t space = line.rfind(' ');
    if (space == std::string_view::npos || space == 0) return "no frames: " + std::string(line);
    const std::string_view bytes = line.substr(space + 1);
    if (bytes.empty() || bytes.find_first_not_of("0123456789") != std::string_view::npos) {
      return "no number: " + std::string(line);
    }
  }
  return {};
}

INSTANTIATE_TEST_SUITE_P(Collapsed, ExporterSuite,
                         testing::Values(ExporterCase{exporters::collapsed::make, folded_flaw}));

INSTANTIATE_TEST_SUITE_P(CollapsedLayers, ExporterSuite,
                         testing::Values(ExporterCase{exporters::collapsed::make_layers,
                                                      folded_flaw}));

TEST(CollapsedLayersExporter, layers_operators_and_lines_replace_calls) {
  TraceMaker maker;
  const auto line = maker.stack({{"net.py", 7, "forward"}, {"train.py", 1, "main"}});
  maker.alloc_reported(1, 10, {.layer = "Net.a;b", .op = "aten::relu", .stack = line});
  EXPECT_EQ(exported(*exporters::collapsed::make_layers(), maker.finish()),
            "cuda:0;Net;Net.a:b;aten::relu;net.py:7 (forward) 10\n");
}

TEST(CollapsedExporter, live_stacks_are_written_root_first_largest_first) {
  TraceMaker maker;
  const auto small = maker.stack({{"a.py", 2, "leaf"}, {"a.py", 9, "root"}});
  const auto large = maker.stack({{"b.py", 3, "leaf"}, {"a.py", 9, "root"}});
  const auto gone = maker.stack({{"c.py", 4, "leaf"}});
  maker.alloc(0x1000, 10, small).alloc(0x2000, 1000, large).alloc(0x3000, 5, gone).free(0x3000, 5);
  maker.alloc(0x4000, 1, small).alloc(0x5000, 7);
  EXPECT_EQ(exported(*exporters::collapsed::make(), maker.finish()),
            "cuda:0;root (a.py:9);leaf (b.py:3) 1000\n"
            "cuda:0;root (a.py:9);leaf (a.py:2) 11\n"
            "cuda:0;[no stack recorded] 7\n");
}

TEST(CollapsedExporter, invisible_characters_become_spaces) {
  TraceMaker maker;
  maker.alloc(0x1000, 10, maker.stack({{"a\xff.py", 2, "\u202Eb\U000E0041;\x1b\u0085c"}}));
  EXPECT_EQ(exported(*exporters::collapsed::make(), maker.finish()),
            "cuda:0; b :  c (a\uFFFD.py:2) 10\n");
}

TEST(CollapsedExporter, memory_waiting_for_a_stream_is_live) {
  TraceMaker maker;
  maker.alloc(0x1000, 10).event(model::Action::kFreeRequested, 0x1000, 10);
  EXPECT_EQ(exported(*exporters::collapsed::make(), maker.finish()),
            "cuda:0;[no stack recorded] 10\n");
}

TEST(CollapsedExporter, the_point_in_time_is_that_of_the_tables) {
  TraceMaker maker;
  const model::Trace trace = maker.alloc(0x1000, 10).alloc(0x2000, 20).free(0x1000, 10).finish();
  report::Report report = report_at_end(trace);
  report.tables.points[0].event = 1;
  EXPECT_EQ(exported(*exporters::collapsed::make(), trace, report),
            "cuda:0;[no stack recorded] 30\n");
  report.tables.points[0].event.reset();
  EXPECT_EQ(exported(*exporters::collapsed::make(), trace, report), "");
}

TEST(CollapsedExporter, separators_in_names_are_replaced_and_unknown_lines_omitted) {
  TraceMaker maker;
  maker.alloc(0x1000, 10, maker.stack({{"a;b\n.py", 2, "f;\tg"}}));
  maker.alloc(0x2000, 1, maker.stack({{"a.py", model::kUnknownLine, "f"}}));
  EXPECT_EQ(exported(*exporters::collapsed::make(), maker.finish()),
            "cuda:0;f: g (a:b .py:2) 10\n"
            "cuda:0;f (a.py) 1\n");
}

}  // namespace
}  // namespace plimsoll::tests
