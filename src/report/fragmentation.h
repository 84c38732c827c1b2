// The reserved bytes that are not allocated at the end of the recording, exactly, from the
// allocator's own block lists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"

namespace plimsoll::report {

// A live block that keeps a partly free segment from being released.
struct PinningBlock {
  std::uint64_t address = 0;
  std::uint64_t requested_bytes = 0;
  std::string line;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"address", &PinningBlock::address, "Address of the block."},
        Field{"requested_bytes", &PinningBlock::requested_bytes, "Requested bytes."},
        Field{"line", &PinningBlock::line, "Line that allocated the block."});
  }
};

// A block that alone pins cached memory.
struct LoneBlock {
  std::uint64_t segment_address = 0;
  std::uint64_t segment_bytes = 0;
  std::uint64_t address = 0;
  std::uint64_t requested_bytes = 0;
  std::string line;
  std::uint64_t pinned_bytes = 0;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"segment_address", &LoneBlock::segment_address, "Address of its segment."},
        Field{"segment_bytes", &LoneBlock::segment_bytes, "Size of its segment."},
        Field{"address", &LoneBlock::address, "Address of the block."},
        Field{"requested_bytes", &LoneBlock::requested_bytes, "Requested bytes."},
        Field{"line", &LoneBlock::line, "Line that allocated the block."},
        Field{"pinned_bytes", &LoneBlock::pinned_bytes,
              "Cached bytes that would become releasable without the block: those of the segment, "
              "or of pages of an expandable segment, in which it is the only block."});
  }
};

struct SegmentFragmentation {
  std::uint64_t address = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t active_bytes = 0;
  std::uint64_t cached_bytes = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t largest_free_bytes = 0;
  std::uint64_t pinning_blocks = 0;
  std::vector<PinningBlock> pins;  // the largest few

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"address", &SegmentFragmentation::address, "Address of the segment."},
        Field{"total_bytes", &SegmentFragmentation::total_bytes, "Size of the segment."},
        Field{"active_bytes", &SegmentFragmentation::active_bytes,
              "Bytes in blocks that are not free."},
        Field{"cached_bytes", &SegmentFragmentation::cached_bytes,
              "Free bytes inside the segment."},
        Field{"pinned_bytes", &SegmentFragmentation::pinned_bytes,
              "Cached bytes that cannot be released: all, except whole free pages of an expandable "
              "segment."},
        Field{"largest_free_bytes", &SegmentFragmentation::largest_free_bytes,
              "Largest free block."},
        Field{"pinning_blocks", &SegmentFragmentation::pinning_blocks,
              "Number of live blocks that pin the segment."},
        Field{"pins", &SegmentFragmentation::pins, "The largest of these blocks."});
  }
};

// A line, and the cached bytes that its blocks pin, alone or together with others.
struct PinningLine {
  std::string line;
  std::uint64_t blocks = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t pinned_cached_bytes =
      0;  // cached bytes of the segments in which this line has a block
  std::uint64_t alone_cached_bytes =
      0;  // of these, segments that only this line pins: released if its blocks move

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"line", &PinningLine::line, "Line that allocated the blocks."},
        Field{"blocks", &PinningLine::blocks, "Number of its blocks in partly free segments."},
        Field{"block_bytes", &PinningLine::block_bytes, "Bytes of these blocks."},
        Field{"pinned_cached_bytes", &PinningLine::pinned_cached_bytes,
              "Cached bytes in those segments."},
        Field{"alone_cached_bytes", &PinningLine::alone_cached_bytes,
              "Cached bytes in segments that no other line pins."});
  }
};

// The point at which most bytes were reserved: the free memory when the allocator requested more
// from the driver.
struct ReservedPeak {
  std::optional<std::uint64_t> event;  // null: reserved bytes never rose in the recording
  std::string line;                    // the line that made the request
  std::uint64_t requested_bytes = 0;
  std::uint64_t stranded_bytes = 0;
  std::vector<PinningLine> pinning_lines;
  std::uint64_t joinable_bytes = 0;  // of the request's stream and pool; not in the report's JSON

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"event", &ReservedPeak::event,
              "Event of the device at which reserved bytes reached their peak. Null if they never "
              "rose above the baseline; the other fields are then meaningless."},
        Field{"line", &ReservedPeak::line, "Line whose request made reserved bytes rise."},
        Field{"requested_bytes", &ReservedPeak::requested_bytes, "Requested bytes of that line."},
        Field{"stranded_bytes", &ReservedPeak::stranded_bytes,
              "Pinned bytes at that event that could not serve the request."},
        Field{"pinning_lines", &ReservedPeak::pinning_lines, "Lines that pinned them."});
  }
};

struct Fragmentation {
  std::uint64_t internal_bytes = 0;
  std::uint64_t cached_bytes = 0;
  std::uint64_t releasable_bytes = 0;
  std::uint64_t private_bytes = 0;
  std::string private_pools;  // "pool (0, 1)"
  std::uint64_t pinned_bytes = 0;
  std::uint64_t largest_free_bytes = 0;
  double ratio = 0;
  std::optional<std::uint64_t>
      stranded_request_bytes;  // the request that stranded bytes are measured against
  std::optional<std::uint64_t> stranded_bytes;
  std::vector<SegmentFragmentation>
      segments;                            // partly free, most pinned bytes first; the largest few
  std::vector<PinningLine> pinning_lines;  // most pinned bytes first; the largest few
  std::vector<LoneBlock> lone_blocks;      // most pinned bytes first; the largest few
  ReservedPeak at_reserved_peak;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"internal_bytes", &Fragmentation::internal_bytes, "Allocated minus requested."},
        Field{"cached_bytes", &Fragmentation::cached_bytes,
              "Reserved minus active: reusable, not waste by itself."},
        Field{"releasable_bytes", &Fragmentation::releasable_bytes,
              "Cached bytes that empty_cache() would return: segments, or pages of expandable "
              "segments, with no live block."},
        Field{
            "private_bytes", &Fragmentation::private_bytes,
            "Cached bytes in free segments or pages of private pools (CUDA graphs, MemPool), which "
            "empty_cache() cannot return while the graph or the pool exists."},
        Field{"private_pools", &Fragmentation::private_pools,
              "The pools with free memory, as in the table by_pool; empty if there are none."},
        Field{"pinned_bytes", &Fragmentation::pinned_bytes,
              "Cached bytes in segments or pages that a live block pins."},
        Field{"largest_free_bytes", &Fragmentation::largest_free_bytes, "Largest free block."},
        Field{"ratio", &Fragmentation::ratio, "(reserved - allocated) / reserved."},
        Field{"stranded_request_bytes", &Fragmentation::stranded_request_bytes,
              "The request that stranded_bytes is measured against: the last one that failed, else "
              "the largest of the recording."},
        Field{
            "stranded_bytes", &Fragmentation::stranded_bytes,
            "Pinned bytes that could not serve that request: too small, or of another stream, pool "
            "or segment type."},
        Field{"segments", &Fragmentation::segments,
              "Partly free segments, most pinned bytes first."},
        Field{"pinning_lines", &Fragmentation::pinning_lines, "The lines that pin them."},
        Field{"lone_blocks", &Fragmentation::lone_blocks,
              "Blocks that alone pin memory, most pinned bytes first."},
        Field{"at_reserved_peak", &Fragmentation::at_reserved_peak,
              "Stranded bytes at the peak of reserved bytes."});
  }
};

}  // namespace plimsoll::report
