#include "analysis/pinning.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <utility>

#include "base/pins.h"
#include "base/release_units.h"
#include "model/segment_release.h"
#include "plimsoll/caching_allocator.h"

namespace plimsoll::analysis {
namespace {

using base::ReleaseUnit;
using model::FreeGap;
using model::FreeKind;
using model::HeapLayout;
using model::PlacedBlock;
using model::SegmentRange;
using model::SegmentType;

constexpr std::size_t kSegmentsKept = 8;
constexpr std::size_t kPinsKept = 3;
constexpr std::size_t kLinesKept = 10;
constexpr std::size_t kLoneBlocksKept = 10;

bool is_same_pool(const model::Trace& trace, model::PoolId a, model::PoolId b) {
  return trace.pools[a.index()] == trace.pools[b.index()];
}

// The blocks of the layout, each charged to its line.
std::vector<base::PinBlock> pin_blocks(const HeapLayout& layout, const model::UserLines& lines) {
  std::vector<base::PinBlock> blocks;
  blocks.reserve(layout.blocks.size());
  for (const PlacedBlock& block : layout.blocks) {
    blocks.push_back(
        {block.address, block.end(), block.requested_bytes, lines.line(block.stack).value});
  }
  return blocks;
}

class Account {
 public:
  Account(const model::Trace& trace, const HeapLayout& layout, const model::UserLines& lines,
          const std::optional<Request>& request)
      : trace_(trace),
        layout_(layout),
        lines_(lines),
        request_(request),
        charges_(pin_blocks(layout, lines)) {}

  Pinning run() {
    const std::vector<FreeGap> gaps = layout_.gaps();
    for (const SegmentRange& segment : layout_.segments) {
      found_.reserved_bytes += segment.size_bytes;
    }
    for (std::size_t first = 0; first < gaps.size();) {
      std::size_t last = first;
      while (last < gaps.size() && gaps[last].segment == gaps[first].segment) ++last;
      add_segment(layout_.segments[gaps[first].segment],
                  std::span(gaps).subspan(first, last - first));
      first = last;
    }
    keep_most_pinned();
    keep_lone_blocks();
    return std::move(found_);
  }

 private:
  void add_segment(const SegmentRange& segment, std::span<const FreeGap> gaps) {
    report::SegmentFragmentation row;
    row.address = segment.address;
    row.total_bytes = segment.size_bytes;
    const bool serves = request_ && may_serve(trace_, segment, *request_);
    for (const FreeGap& gap : gaps) {
      row.cached_bytes += gap.size_bytes;
      row.largest_free_bytes = std::max(row.largest_free_bytes, gap.size_bytes);
      if (serves) {
        found_.largest_usable_bytes = std::max(found_.largest_usable_bytes, gap.size_bytes);
      }
    }
    row.active_bytes = segment.size_bytes - row.cached_bytes;
    add_units(segment, gaps, serves, row);
    found_.cached_bytes += row.cached_bytes;
    found_.largest_free_bytes = std::max(found_.largest_free_bytes, row.largest_free_bytes);
    const bool is_reachable = request_ && (!model::is_private(trace_, segment.pool) ||
                                           is_same_pool(trace_, segment.pool, request_->pool));
    if (is_reachable) found_.reachable_bytes += row.cached_bytes;
    if (model::is_private(trace_, segment.pool) && !is_reachable) note_pool(segment.pool);
    if (row.pinned_bytes > 0) found_.segments.push_back(std::move(row));
  }

  void add_units(const SegmentRange& segment, std::span<const FreeGap> gaps, bool serves,
                 report::SegmentFragmentation& row) {
    base::ReleaseUnits units = model::release_units(segment);
    const auto visit = [&](const ReleaseUnit& unit) {
      const std::uint64_t stranded_before = found_.stranded_bytes;
      add_unit(unit, model::kind_of(trace_, segment, unit), segment, row);
      if (serves) found_.joinable_bytes += found_.stranded_bytes - stranded_before;
    };
    pins_.clear();
    for (const FreeGap& gap : gaps) {
      const bool is_stranded = request_ && !(serves && gap.size_bytes >= request_->size_bytes);
      units.add_gap(gap.address, gap.end(), is_stranded, visit);
    }
    units.finish(visit);
    keep_largest_pins(row);
  }

  void note_pool(model::PoolId pool) {
    auto& pools = found_.private_pools;
    if (std::ranges::find(pools, pool) == pools.end()) pools.push_back(pool);
  }

  void add_unit(const ReleaseUnit& unit, FreeKind kind, const SegmentRange& segment,
                report::SegmentFragmentation& row) {
    if (kind == FreeKind::kPrivate) found_.private_bytes += unit.free_bytes;
    if (kind == FreeKind::kReleasable) found_.releasable_bytes += unit.free_bytes;
    if (kind != FreeKind::kPinned) return;
    found_.pinned_bytes += unit.free_bytes;
    found_.stranded_bytes += unit.stranded_bytes;
    row.pinned_bytes += unit.free_bytes;
    charges_.charge(unit, [&](std::size_t block) { pins_.push_back(block); });
    const std::size_t first = layout_.first_block_after(unit.begin);
    std::size_t end = first;
    while (end < layout_.blocks.size() && layout_.blocks[end].address < unit.end) ++end;
    if (end - first == 1) add_lone_block(unit, segment, layout_.blocks[first]);
  }

  // Units come by address, so those of one block follow each other.
  void add_lone_block(const ReleaseUnit& unit, const SegmentRange& segment,
                      const PlacedBlock& block) {
    if (lone_.empty() || lone_.back().row.address != block.address) {
      report::LoneBlock row;
      row.segment_address = segment.address;
      row.segment_bytes = segment.size_bytes;
      row.address = block.address;
      row.requested_bytes = block.requested_bytes;
      lone_.push_back({std::move(row), block.stack});
    }
    lone_.back().row.pinned_bytes += unit.free_bytes;
  }

  void keep_largest_pins(report::SegmentFragmentation& row) {
    row.pinning_blocks = pins_.size();
    const std::size_t kept = std::min(kPinsKept, pins_.size());
    std::ranges::partial_sort(pins_, pins_.begin() + static_cast<std::ptrdiff_t>(kept),
                              std::ranges::greater{},
                              [&](std::size_t b) { return layout_.blocks[b].requested_bytes; });
    for (std::size_t pin = 0; pin < kept; ++pin) {
      const PlacedBlock& block = layout_.blocks[pins_[pin]];
      row.pins.push_back(
          report::PinningBlock{block.address, block.requested_bytes, lines_.label(block.stack)});
    }
  }

  void keep_lone_blocks() {
    std::ranges::stable_sort(lone_, std::greater{},
                             [](const LoneBlock& lone) { return lone.row.pinned_bytes; });
    if (lone_.size() > kLoneBlocksKept) lone_.resize(kLoneBlocksKept);
    for (LoneBlock& lone : lone_) {
      lone.row.line = lines_.label(lone.stack);
      found_.lone_blocks.push_back(std::move(lone.row));
    }
  }

  void keep_most_pinned() {
    const std::vector<base::OwnerPins>& by_line = charges_.by_owner();
    for (std::uint32_t line = 0; line < by_line.size(); ++line) {
      const base::OwnerPins& pins = by_line[line];
      if (pins.blocks == 0) continue;
      report::PinningLine& row = found_.lines.emplace_back();
      row.line = lines_.label(model::LineId{line});
      row.blocks = pins.blocks;
      row.block_bytes = pins.block_bytes;
      row.pinned_cached_bytes = pins.pinned_bytes;
      row.alone_cached_bytes = pins.alone_bytes;
    }
    std::ranges::stable_sort(found_.lines, std::greater{},
                             &report::PinningLine::pinned_cached_bytes);
    std::ranges::stable_sort(found_.segments, std::greater{},
                             &report::SegmentFragmentation::pinned_bytes);
    if (found_.lines.size() > kLinesKept) found_.lines.resize(kLinesKept);
    if (found_.segments.size() > kSegmentsKept) found_.segments.resize(kSegmentsKept);
  }

  struct LoneBlock {
    report::LoneBlock row;
    model::StackId stack;
  };

  const model::Trace& trace_;
  const HeapLayout& layout_;
  const model::UserLines& lines_;
  const std::optional<Request>& request_;
  Pinning found_;
  base::PinCharges charges_;
  std::vector<LoneBlock> lone_;    // by address
  std::vector<std::size_t> pins_;  // blocks that pin the current segment, ascending
};

}  // namespace

bool may_serve(const model::Trace& trace, const SegmentRange& segment, const Request& request) {
  const SegmentType wanted = caching_allocator::is_small_request(request.size_bytes)
                                 ? SegmentType::kSmall
                                 : SegmentType::kLarge;
  return segment.stream == request.stream && is_same_pool(trace, segment.pool, request.pool) &&
         (segment.type == wanted || segment.type == SegmentType::kUnknown);
}

std::string pools_text(const model::Trace& trace, const std::vector<model::PoolId>& pools) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  for (std::size_t at = 0; at < std::min(pools.size(), kNamed); ++at) {
    const model::Pool& pool = trace.pools[pools[at].index()];
    text += (at > 0 ? ", pool (" : "pool (") + std::to_string(pool.first) + ", " +
            std::to_string(pool.second) + ")";
  }
  if (pools.size() > kNamed) text += " and " + std::to_string(pools.size() - kNamed) + " more";
  return text;
}

Pinning find_pinning(const model::Trace& trace, const HeapLayout& layout,
                     const model::UserLines& lines, const std::optional<Request>& request) {
  return Account(trace, layout, lines, request).run();
}

}  // namespace plimsoll::analysis
