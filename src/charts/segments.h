// The segments of a device at a point in time. The area of a box shows its bytes. Free memory that
// a block pins is hatched; memory that could be returned to the driver is plain.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "charts/chart.h"
#include "charts/grouping.h"
#include "model/groupings.h"
#include "model/trace.h"
#include "model/user_line.h"
#include "tiles/bands.h"
#include "tiles/segments.h"

namespace plimsoll::charts {

struct SegmentsData {
  std::vector<tiles::SegmentParts> segments;  // most pinned bytes first
  tiles::Groups groups;                       // of the lifetimes of blocks
  std::vector<GroupStyle> styles;             // most bytes in blocks first
  std::vector<std::uint64_t> group_bytes;     // in blocks, by group
  std::vector<bool> are_unused;               // by lifetime: not used again; empty if unknown
  std::uint64_t unused_bytes = 0;             // in blocks that are not used again
  std::uint64_t unknown_block_bytes = 0;      // in blocks without a lifetime
  std::uint64_t reserved_bytes = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t releasable_bytes = 0;
  std::uint64_t private_bytes = 0;
};

// Empty segments if the device has none at that point. Blocks are colored `by` the grouping, which
// must be known; nullopt: the default.
SegmentsData segments_data(const model::Trace& trace, const model::DeviceTrace& device,
                           const model::UserLines& lines, std::int64_t point,
                           std::optional<model::Dimension> by);

Chart segments(const SegmentsData& data, const ChartOptions& options);

}  // namespace plimsoll::charts
