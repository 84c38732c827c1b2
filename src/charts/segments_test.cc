#include "charts/segments.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "page/svg.h"
#include "tests/support/drawn.h"
#include "tests/support/trace_maker.h"
#include "tests/support/units.h"
#include "tests/support/xml_text.h"

namespace plimsoll::charts {
namespace {

using model::BlockState;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;
using tests::illegible;
using tests::kMib;
using tests::rect_with;
using tests::TraceMaker;

// A segment of 10 MiB with a block of 4 MiB, which pins the rest, and a free segment of 20 MiB.
model::Trace two_segments(std::string_view file = "train.py") {
  TraceMaker maker;
  const auto stack = maker.stack({{file, 7, "forward"}});
  const auto block = [&](std::uint64_t address, std::uint64_t size, BlockState state) {
    return TraceMaker::block(address, size, size, state, stack);
  };
  maker.segment(0x1000'0000, 10 * kMib,
                {block(0x1000'0000, 4 * kMib, BlockState::kActiveAllocated),
                 block(0x1000'0000 + 4 * kMib, 6 * kMib, BlockState::kInactive)});
  maker.segment(0x4000'0000, 20 * kMib, {block(0x4000'0000, 20 * kMib, BlockState::kInactive)});
  return maker.finish();
}

SegmentsData data_of(const model::Trace& trace) {
  const model::UserLines lines(trace);
  return segments_data(trace, trace.devices[0], lines, -1, model::Dimension::kLine);
}

ChartOptions segment_options(double width = 960) {
  ChartOptions options;
  options.width = width;
  options.title = "snapshot.pickle";
  options.has_legend = true;
  return options;
}

double width_of_all(const page::Drawing& drawing, std::string_view tooltip) {
  double width = 0;
  for (const page::Rect& rect : tests::shapes<page::Rect>(drawing)) {
    if (rect.hint.tooltip.starts_with(tooltip)) width += rect.width;
  }
  return width;
}

TEST(Segments, areas_are_bytes) {
  const SegmentsData data = data_of(two_segments());
  EXPECT_EQ(data.block_bytes, 4 * kMib);
  EXPECT_EQ(data.pinned_bytes, 6 * kMib);
  EXPECT_EQ(data.releasable_bytes, 20 * kMib);
  const Chart chart = segments(data, segment_options());
  const double block = width_of_all(chart.drawing, "train.py:7");
  ASSERT_GT(block, 10);
  EXPECT_NEAR(width_of_all(chart.drawing, "pinned: "), block * 6 / 4, 1);
  EXPECT_NEAR(width_of_all(chart.drawing, "releasable"), block * 20 / 4, 3);
  EXPECT_THAT(tests::texts(chart.drawing), IsSupersetOf({"pinned 6.0 MiB", "releasable 20.0 MiB"}));
  EXPECT_THAT(chart.description,
              HasSubstr("2 segments, 30.0 MiB reserved: blocks 4.0 MiB, free but pinned 6.0 MiB"));
}

TEST(Segments, pinned_memory_is_hatched_and_comes_first) {
  const Chart chart = segments(data_of(two_segments()), {});
  const page::Rect pinned = rect_with(chart.drawing, "pinned: 6.0 MiB");
  EXPECT_EQ(pinned.fill.hatch, page::Paint::kCritical);
  const page::Rect releasable = rect_with(chart.drawing, "releasable");
  EXPECT_EQ(releasable.fill.hatch, page::Paint::kNone);
  EXPECT_LT(pinned.y, releasable.y + 0.1);
}

TEST(Segments, blocks_that_are_not_used_again_are_hatched) {
  TraceMaker maker;
  const auto stack = maker.stack({{"train.py", 7, "forward"}});
  const auto alloc = [&](std::uint64_t address, std::uint64_t size, const model::LastUse& use) {
    maker.alloc_reported(address, size, {.stack = stack, .use = use});
    return TraceMaker::block(address, size, size, BlockState::kActiveAllocated, stack);
  };
  const std::vector<model::Block> blocks = {
      alloc(0x1000'0000, 4 * kMib, {.unused_from = 1}),             // not used again
      alloc(0x1000'0000 + 4 * kMib, 6 * kMib, {.unused_from = 9}),  // used again
      alloc(0x1000'0000 + 10 * kMib, 8 * kMib, {})};                // unknown
  maker.segment(0x1000'0000, 18 * kMib, blocks);
  const model::Trace trace = maker.finish();
  const model::UserLines lines(trace);
  const SegmentsData data =
      segments_data(trace, trace.devices[0], lines, 2, model::Dimension::kLine);
  EXPECT_EQ(data.unused_bytes, 4 * kMib);
  const Chart chart = segments(data, segment_options());
  std::vector<std::string> hatched;
  for (const page::Rect& rect : tests::shapes<page::Rect>(chart.drawing)) {
    if (rect.fill.slope != page::HatchSlope::kFalling) continue;
    hatched.push_back(rect.hint.tooltip);
    EXPECT_EQ(rect.fill.hatch, page::Paint::kBackground);
  }
  EXPECT_THAT(hatched, ElementsAre("", "train.py:7 (forward): 4.0 MiB, not used again"))
      << "the legend and one block";
  EXPECT_THAT(tests::texts(chart.drawing), Contains("not used again 4.0 MiB"));
  EXPECT_THAT(chart.description, HasSubstr("blocks 18.0 MiB (4.0 MiB not used again), free"));
  EXPECT_EQ(illegible(chart.drawing), "");
}

TEST(Segments, everything_is_drawn_inside_the_plot) {
  TraceMaker maker;
  for (std::uint64_t i = 0; i < 900; ++i) {
    const std::uint64_t address = 0x1000'0000 + i * 0x1000'0000;
    const std::uint64_t size = (i % 7 == 0 ? 900 : 2) * kMib;
    maker.segment(address, size, {TraceMaker::block(address, size, size)});
  }
  const SegmentsData data = data_of(maker.finish());
  for (const double width : {200.0, 960.0, 3000.0}) {
    for (const double height : {0.0, 300.0}) {
      ChartOptions options = segment_options(width);
      options.height = height;
      const Chart chart = segments(data, options);
      for (const page::Rect& rect : tests::shapes<page::Rect>(chart.drawing)) {
        EXPECT_LE(rect.x + rect.width, chart.x + chart.width + 0.1);
        EXPECT_LE(rect.y + rect.height, chart.drawing.height);
      }
      EXPECT_EQ(illegible(chart.drawing), "") << width;
    }
  }
}

TEST(Segments, a_segment_longer_than_a_row_continues_in_the_next) {
  TraceMaker maker;
  maker.segment(0x1000'0000, 1000 * kMib,
                {TraceMaker::block(0x1000'0000, 1000 * kMib, 1000 * kMib)});
  const Chart chart = segments(data_of(maker.finish()), {});
  std::vector<double> rows;
  double width = 0;
  for (const page::Rect& rect : tests::shapes<page::Rect>(chart.drawing)) {
    if (!rect.hint.tooltip.starts_with("[")) continue;
    rows.push_back(rect.y);
    width += rect.width;
  }
  EXPECT_EQ(rows.size(), 4u);
  EXPECT_NEAR(width, 4 * chart.width, 5);
}

TEST(Segments, thousands_of_tiny_blocks_are_few_shapes) {
  TraceMaker maker;
  std::vector<model::Block> blocks;
  for (std::uint64_t i = 0; i < 40'000; ++i) {
    const auto state = i % 2 == 0 ? BlockState::kActiveAllocated : BlockState::kInactive;
    blocks.push_back(TraceMaker::block(0x1000'0000 + i * 512, 512, 512, state));
  }
  maker.segment(0x1000'0000, std::uint64_t{40'000} * 512, blocks);
  const Chart chart = segments(data_of(maker.finish()), {});
  EXPECT_LT(chart.drawing.shapes.size(), 6'000u);
  EXPECT_THAT(tests::tooltips(chart.drawing), Contains(HasSubstr("blocks and gaps")));
}

TEST(Segments, without_segments_there_is_a_sentence) {
  TraceMaker maker;
  maker.alloc(0x1000, 10);
  EXPECT_THAT(tests::texts(segments(data_of(maker.finish()), {}).drawing),
              ElementsAre("No segments at this point."));
}

TEST(Segments, names_of_any_content_are_text) {
  for (const std::string& file : {std::string("</script><b>\xFF"), std::string(1 << 20, '"')}) {
    const Chart chart = segments(data_of(two_segments(file)), segment_options());
    EXPECT_EQ(tests::xml_flaw(page::to_svg(chart.drawing, {})), "");
    EXPECT_EQ(illegible(chart.drawing), "");
  }
}

}  // namespace
}  // namespace plimsoll::charts
