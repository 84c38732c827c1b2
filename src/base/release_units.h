// The units in which a caching allocator returns memory to the driver: a segment or, in an
// expandable segment, a page. A unit that contains part of a block cannot be returned; the block
// pins its free memory.
//
//   segment  |####........|..........|    # block, . free
//   plain    one unit: all 18 free bytes are pinned by the block at the left
//   pages    |####........|..........|    8 pinned, 10 releasable
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::base {

// One unit with free memory, or a run of adjacent units that are completely free.
struct ReleaseUnit {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t stranded_bytes = 0;  // of those, in gaps that a request cannot use

  bool is_free() const { return free_bytes == end - begin; }
};

// Splits the free gaps of a segment at the boundaries of its units.
class ReleaseUnits {
 public:
  // The first unit begins with the segment, the last one may be shorter than the others.
  ReleaseUnits(std::uint64_t begin, std::uint64_t end, std::uint64_t unit_bytes)
      : begin_(begin),
        end_(end),
        unit_bytes_(std::max<std::uint64_t>(unit_bytes, 1)),
        unit_{.begin = begin, .end = begin} {}

  // Gaps come in order and do not overlap. Visits the units that are complete, in order.
  template <typename Visit>
  void add_gap(std::uint64_t at, std::uint64_t end, bool is_stranded, Visit&& visit) {
    while (at < end) {
      if (at >= unit_.end) {
        finish(visit);
        const std::uint64_t into_unit = (at - begin_) % unit_bytes_;
        if (into_unit == 0) {
          const std::uint64_t whole = (end - at) / unit_bytes_ * unit_bytes_;
          if (whole > 0) visit(ReleaseUnit{at, at + whole, whole, is_stranded ? whole : 0});
          at += whole;
        }
        const std::uint64_t begin = at - into_unit;
        unit_ = {.begin = begin, .end = begin + std::min(unit_bytes_, end_ - begin)};
        if (at == end) break;
      }
      const std::uint64_t piece = std::min(end, unit_.end) - at;
      unit_.free_bytes += piece;
      if (is_stranded) unit_.stranded_bytes += piece;
      at += piece;
    }
  }

  // Visits the last unit, after the last gap.
  template <typename Visit>
  void finish(Visit&& visit) {
    if (unit_.free_bytes > 0) visit(unit_);
    unit_.free_bytes = 0;
  }

 private:
  std::uint64_t begin_;
  std::uint64_t end_;
  std::uint64_t unit_bytes_;
  ReleaseUnit unit_;
};

}  // namespace plimsoll::base
