#include "analysis/pinning.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "plimsoll/caching_allocator.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis {
namespace {

using model::HeapLayout;
using model::PlacedBlock;
using model::SegmentRange;
using model::SegmentType;
using tests::TraceMaker;

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kCell = kMib / 16;  // random layouts are made of cells of this size
constexpr std::uint64_t kPageCells = caching_allocator::kSmallSegmentBytes / kCell;

struct Lines {
  Lines() {
    first = maker.stack({{"/home/u/first.py", 1, "f"}});
    second = maker.stack({{"/home/u/second.py", 2, "g"}});
    trace = maker.finish();
  }
  Pinning find(const HeapLayout& layout, const std::optional<Request>& request = {}) const {
    const model::UserLines user_lines(trace);
    return find_pinning(trace, layout, user_lines, request);
  }

  TraceMaker maker;
  model::StackId first, second;
  model::Trace trace;
};

SegmentRange segment_of(std::uint64_t address, std::uint64_t size, SegmentType type,
                        bool is_expandable = false) {
  return SegmentRange{address, size, {}, {}, type, is_expandable};
}

// A reference that counts cell by cell: the free cells of every unit that contains an occupied one.
std::uint64_t slow_pinned_bytes(const std::vector<bool>& is_occupied, std::size_t unit_cells) {
  std::uint64_t pinned = 0;
  for (std::size_t unit = 0; unit < is_occupied.size(); unit += unit_cells) {
    std::uint64_t free = 0;
    for (std::size_t cell = unit; cell < unit + unit_cells; ++cell)
      free += is_occupied[cell] ? 0 : 1;
    if (free != unit_cells) pinned += free * kCell;
  }
  return pinned;
}

TEST(Pinning, matches_a_count_cell_by_cell) {
  const Lines lines;
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const bool is_expandable = round % 2 == 0;
    const std::size_t cells = kPageCells * 12;
    HeapLayout layout{{segment_of(kMib, cells * kCell, SegmentType::kSmall, is_expandable)}, {}};
    std::vector<bool> is_occupied(cells);
    for (std::size_t cell = random() % 200; cell < cells;) {
      const std::size_t length = std::min<std::size_t>(1 + random() % 40, cells - cell);
      layout.blocks.push_back(
          PlacedBlock{kMib + cell * kCell, length * kCell, length * kCell, lines.first});
      for (std::size_t at = cell; at < cell + length; ++at) is_occupied[at] = true;
      cell += length + random() % 90;
    }
    const Pinning found = lines.find(layout);
    const std::uint64_t pinned = slow_pinned_bytes(is_occupied, is_expandable ? kPageCells : cells);
    ASSERT_EQ(found.pinned_bytes, pinned) << "round " << round;
    const auto free = static_cast<std::uint64_t>(std::ranges::count(is_occupied, false)) * kCell;
    ASSERT_EQ(found.cached_bytes, free);
    ASSERT_EQ(found.releasable_bytes + found.pinned_bytes, found.cached_bytes);
    if (pinned > 0) {
      ASSERT_EQ(found.lines.size(), 1u);
      ASSERT_EQ(found.lines[0].pinned_cached_bytes, pinned);
      ASSERT_EQ(found.lines[0].alone_cached_bytes, pinned);
    }
  }
}

TEST(Pinning, a_block_pins_alone_only_if_no_other_shares_its_segment_or_page) {
  const Lines lines;
  constexpr std::uint64_t kPage = 20 * kMib;
  const HeapLayout layout{{segment_of(0, 20 * kMib, SegmentType::kLarge),
                           segment_of(40 * kMib, 20 * kMib, SegmentType::kLarge),
                           segment_of(100 * kMib, 3 * kPage, SegmentType::kLarge, true)},
                          {PlacedBlock{0, 2 * kMib, 2 * kMib - 5, lines.first},
                           PlacedBlock{40 * kMib, kMib, kMib, lines.first},
                           PlacedBlock{50 * kMib, kMib, kMib, lines.second},
                           // This block shares the first page, and is the only one in the other
                           // two.
                           PlacedBlock{101 * kMib, kMib, kMib, lines.first},
                           PlacedBlock{110 * kMib, 2 * kPage - 5 * kMib, kMib, lines.second}}};
  const Pinning found = lines.find(layout);
  ASSERT_EQ(found.lone_blocks.size(), 2u);
  EXPECT_EQ(found.lone_blocks[0].address, 0u);
  EXPECT_EQ(found.lone_blocks[0].pinned_bytes, 18 * kMib);
  EXPECT_EQ(found.lone_blocks[0].requested_bytes, 2 * kMib - 5);
  EXPECT_EQ(found.lone_blocks[0].segment_bytes, 20 * kMib);
  EXPECT_EQ(found.lone_blocks[0].line, "/home/u/first.py:1 (f)");
  EXPECT_EQ(found.lone_blocks[1].address, 110 * kMib);
  EXPECT_EQ(found.lone_blocks[1].pinned_bytes, 15 * kMib);
  EXPECT_EQ(found.lone_blocks[1].line, "/home/u/second.py:2 (g)");
}

TEST(Pinning, a_line_pins_alone_only_if_no_other_line_has_a_block) {
  const Lines lines;
  const HeapLayout layout{{segment_of(0, 20 * kMib, SegmentType::kLarge),
                           segment_of(40 * kMib, 20 * kMib, SegmentType::kLarge)},
                          {PlacedBlock{0, 2 * kMib, 2 * kMib - 5, lines.first},
                           PlacedBlock{8 * kMib, 2 * kMib, 2 * kMib, lines.second},
                           PlacedBlock{40 * kMib, 4 * kMib, 4 * kMib, lines.second}}};
  const Pinning found = lines.find(layout);
  ASSERT_EQ(found.lines.size(), 2u);
  EXPECT_EQ(found.lines[0].line, "/home/u/second.py:2 (g)");
  EXPECT_EQ(found.lines[0].blocks, 2u);
  EXPECT_EQ(found.lines[0].block_bytes, 6 * kMib);
  EXPECT_EQ(found.lines[0].pinned_cached_bytes, 32 * kMib);
  EXPECT_EQ(found.lines[0].alone_cached_bytes, 16 * kMib);
  EXPECT_EQ(found.lines[1].pinned_cached_bytes, 16 * kMib);
  EXPECT_EQ(found.lines[1].alone_cached_bytes, 0u);
  ASSERT_EQ(found.segments.size(), 2u);
  EXPECT_EQ(found.segments[0].pinning_blocks, 2u);
  EXPECT_EQ(found.segments[0].pins[0].requested_bytes, 2 * kMib);
}

TEST(Pinning, free_segments_of_private_pools_are_not_releasable) {
  TraceMaker maker;
  const model::PoolId pool = maker.builder().pool(model::Pool{1, 0});
  const model::Trace trace = maker.finish();
  SegmentRange of_pool = segment_of(40 * kMib, 20 * kMib, SegmentType::kLarge);
  of_pool.pool = pool;
  const HeapLayout layout{{segment_of(0, 30 * kMib, SegmentType::kLarge), of_pool}, {}};
  const Pinning found = find_pinning(trace, layout, model::UserLines(trace), {});
  EXPECT_EQ(found.releasable_bytes, 30 * kMib);
  EXPECT_EQ(found.private_bytes, 20 * kMib);
  EXPECT_EQ(found.pinned_bytes, 0u);
  EXPECT_EQ(pools_text(trace, found.private_pools), "pool (1, 0)");
}

TEST(Pinning, only_a_gap_that_fits_in_the_right_pool_and_stream_serves_a_request) {
  TraceMaker maker;
  const model::PoolId private_pool = maker.builder().pool(model::Pool{0, 3});
  const model::StreamId other_stream = maker.builder().stream(99);
  const model::StackId stack = maker.stack({{"/home/u/a.py", 1, "f"}});
  const model::Trace trace = maker.finish();
  const model::UserLines user_lines(trace);
  HeapLayout layout;
  std::uint64_t address = 0;
  for (int which = 0; which < 5; ++which, address += 100 * kMib) {
    SegmentRange segment = segment_of(address, 20 * kMib, SegmentType::kLarge);
    if (which == 1) segment.pool = private_pool;
    if (which == 2) segment.stream = other_stream;
    if (which == 3) segment.type = SegmentType::kSmall;
    layout.segments.push_back(segment);
    const std::uint64_t block = which == 4 ? 16 * kMib : 8 * kMib;
    layout.blocks.push_back(PlacedBlock{address, block, block, stack});
  }
  const Pinning found = find_pinning(trace, layout, user_lines, Request{10 * kMib, {}, {}});
  EXPECT_EQ(found.largest_usable_bytes, 12 * kMib);
  EXPECT_EQ(found.pinned_bytes, 52 * kMib);
  EXPECT_EQ(found.stranded_bytes, 40 * kMib) << "all but the gap of segment 0";
  EXPECT_EQ(found.joinable_bytes, 4 * kMib) << "the gap of segment 4, which is only too small";
  EXPECT_EQ(found.reachable_bytes, 40 * kMib) << "all but the private pool";
}

TEST(Pinning, a_huge_segment_takes_no_extra_time) {
  const Lines lines;
  const HeapLayout layout{{segment_of(0, std::uint64_t{1} << 62, SegmentType::kLarge, true)},
                          {PlacedBlock{kMib, kMib, kMib, lines.first}}};
  EXPECT_EQ(lines.find(layout).pinned_bytes, 19 * kMib);
}

}  // namespace
}  // namespace plimsoll::analysis
