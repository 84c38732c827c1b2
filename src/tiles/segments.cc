#include "tiles/segments.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "model/heap_layout.h"
#include "model/live_set.h"
#include "model/segment_release.h"

namespace plimsoll::tiles {
namespace {

using model::FreeGap;
using model::FreeKind;
using model::HeapLayout;
using model::PlacedBlock;
using model::SegmentRange;

HeapLayout layout_at(const model::Trace& trace, const model::DeviceTrace& device,
                     std::int64_t point) {
  // As in the report's fragmentation, the allocator's own blocks are used at the end.
  if (point + 1 >= static_cast<std::int64_t>(device.events.size())) {
    return model::final_layout(trace, device);
  }
  const std::array points{point};
  return model::layout_of(trace, device, std::move(model::segments_at(trace, device, points)[0]),
                          model::live_set(device, model::Liveness::kActive, point));
}

RangeKind range_kind(FreeKind kind) {
  switch (kind) {
    case FreeKind::kPinned:
      return RangeKind::kPinned;
    case FreeKind::kReleasable:
      return RangeKind::kReleasable;
    case FreeKind::kPrivate:
      return RangeKind::kPrivate;
  }
  return RangeKind::kPinned;
}

class Cutter {
 public:
  Cutter(const model::Trace& trace, const HeapLayout& layout, const SegmentRange& segment)
      : trace_(trace), layout_(layout), at_(segment.address) {
    out_.segment = segment;
  }

  SegmentParts run(std::span<const FreeGap> gaps) {
    find_units(gaps);
    std::size_t block = layout_.first_block_after(out_.segment.address);
    for (const FreeGap& gap : gaps) {
      add_blocks(block, gap.address);
      add_free(gap);
    }
    add_blocks(block, out_.segment.end());
    return std::move(out_);
  }

 private:
  struct Unit {
    std::uint64_t end;
    RangeKind kind;
  };

  void find_units(std::span<const FreeGap> gaps) {
    base::ReleaseUnits units = model::release_units(out_.segment);
    const auto visit = [&](const base::ReleaseUnit& unit) {
      units_.push_back({unit.end, range_kind(kind_of(trace_, out_.segment, unit))});
    };
    for (const FreeGap& gap : gaps) units.add_gap(gap.address, gap.end(), false, visit);
    units.finish(visit);
  }

  // Adds the blocks up to `end`, where a gap begins. If blocks overlap, which only happens in a
  // file that contradicts itself, the lower one is shown in full.
  void add_blocks(std::size_t& block, std::uint64_t end) {
    for (; block < layout_.blocks.size() && at_ < end; ++block) {
      const PlacedBlock& placed = layout_.blocks[block];
      add(std::min(placed.end(), end), RangeKind::kBlock, placed.lifetime);
    }
  }

  void add_free(const FreeGap& gap) {
    while (at_ < gap.end()) {
      while (units_[unit_].end <= at_) ++unit_;
      add(std::min(gap.end(), units_[unit_].end), units_[unit_].kind, model::kNone);
    }
  }

  void add(std::uint64_t end, RangeKind kind, std::uint32_t lifetime) {
    if (end <= at_) return;
    const std::uint64_t size = end - at_;
    sum_of(kind) += size;
    const bool continues =
        kind != RangeKind::kBlock && !out_.parts.empty() && out_.parts.back().kind == kind;
    if (continues) {
      out_.parts.back().size_bytes += size;
    } else {
      out_.parts.push_back({at_ - out_.segment.address, size, kind, lifetime});
    }
    at_ = end;
  }

  std::uint64_t& sum_of(RangeKind kind) {
    switch (kind) {
      case RangeKind::kBlock:
        return out_.block_bytes;
      case RangeKind::kPinned:
        return out_.pinned_bytes;
      case RangeKind::kReleasable:
        return out_.releasable_bytes;
      case RangeKind::kPrivate:
        break;
    }
    return out_.private_bytes;
  }

  const model::Trace& trace_;
  const HeapLayout& layout_;
  std::uint64_t at_;  // everything below this address is cut
  SegmentParts out_;
  std::vector<Unit> units_;  // with free memory, by address
  std::size_t unit_ = 0;
};

}  // namespace

std::vector<SegmentParts> segments(const model::Trace& trace, const model::DeviceTrace& device,
                                   std::int64_t point) {
  if (!device.has_final_state) return {};
  const HeapLayout layout = layout_at(trace, device, point);
  const std::vector<FreeGap> gaps = layout.gaps();
  std::vector<SegmentParts> parts;
  parts.reserve(layout.segments.size());
  std::size_t first = 0;
  for (std::uint32_t row = 0; row < layout.segments.size(); ++row) {
    std::size_t last = first;
    while (last < gaps.size() && gaps[last].segment == row) ++last;
    const auto of_segment = std::span(gaps).subspan(first, last - first);
    parts.push_back(Cutter(trace, layout, layout.segments[row]).run(of_segment));
    first = last;
  }
  return parts;
}

}  // namespace plimsoll::tiles
