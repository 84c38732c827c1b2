// Single allocations as rectangles over the points of a chart: horizontal where they are live,
// stacked inside the band of their group.
//
// The order of the stack is fixed: by band, then by birth. When an allocation below begins or ends,
// those above it move and continue as new rectangles. Allocations under a minimum size have no
// rectangle; they are a remainder at the top of their band, so that a band is exactly its
// rectangles and its remainder. The number of rectangles, and therefore the cost, is bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/trace.h"
#include "tiles/bands.h"

namespace plimsoll::tiles {

struct Rectangle {
  std::uint32_t lifetime = 0;
  std::uint32_t first_point = 0;  // the points [first_point, end_point)
  std::uint32_t end_point = 0;
  std::uint64_t base_bytes = 0;  // the bytes below the rectangle
  std::uint64_t size_bytes = 0;  // size of the allocation
};

struct Rectangles {
  Bands bands;
  std::vector<Rectangle> rectangles;      // by band, lifetime and point
  std::vector<std::uint64_t> rest_bytes;  // band by band, like bands.bytes
  std::uint64_t min_bytes = 0;            // allocations of this size and more have rectangles
  bool is_minimum_raised = false;         // min_bytes is more than was requested

  std::span<const std::uint64_t> rest_of(std::size_t band) const {
    return {rest_bytes.data() + band * bands.points, bands.points};
  }
};

inline constexpr std::size_t kMostRectangles = 16'384;

// The first group is the lowest band. `points` as for bands(). While there would be more than
// `budget` rectangles, min_bytes is doubled.
Rectangles rectangles(const model::Trace& trace, const model::DeviceTrace& device,
                      const Groups& groups, std::span<const std::int64_t> points,
                      std::uint64_t min_bytes, std::size_t budget = kMostRectangles);

}  // namespace plimsoll::tiles
