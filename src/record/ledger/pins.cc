#include "record/ledger/pins.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/pins.h"
#include "base/release_units.h"
#include "plimsoll/caching_allocator.h"

namespace plimsoll::record {
namespace {

using caching_allocator::is_small_request;
using caching_allocator::is_small_segment;
using caching_allocator::page_bytes;

struct Range {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;
  std::uint32_t pool = 0;
  bool is_expandable = false;
  std::uint64_t end() const { return address + size_bytes; }
};

// The reserved ranges: whole segments and, of expandable ones, runs of adjacent pages.
std::vector<Range> ranges_of(const Ledger& ledger, std::uint8_t device) {
  std::vector<Range> ranges;
  ledger.segments().for_each([&](const format::Segment& segment) {
    if (segment.device != device || segment.size_bytes == 0) return;
    const format::Site site = segment.site != 0 ? ledger.sites()[segment.site] : format::Site{};
    const Range range{segment.address, segment.size_bytes, site.stream, site.pool,
                      segment.action == format::kSegmentMap};
    if (!ranges.empty()) {
      Range& last = ranges.back();
      if (range.is_expandable && last.is_expandable && last.end() == range.address &&
          last.stream == range.stream && last.pool == range.pool) {
        last.size_bytes += range.size_bytes;
        return;
      }
    }
    ranges.push_back(range);
  });
  return ranges;
}

std::vector<const LiveRow*> blocks_on(const Ledger& ledger, std::uint8_t device) {
  std::vector<const LiveRow*> blocks;
  ledger.rows().for_each([&](const LiveRow& row) {
    if (row.device == device) blocks.push_back(&row);
  });
  std::ranges::sort(blocks, {}, &LiveRow::address);
  return blocks;
}

std::vector<base::PinBlock> pin_blocks(std::span<const LiveRow* const> blocks) {
  std::vector<base::PinBlock> all;
  all.reserve(blocks.size());
  for (const LiveRow* block : blocks) {
    const std::uint64_t end = block->address + std::max<std::uint64_t>(block->size_bytes, 1);
    all.push_back({block->address, end, block->size_bytes, block->site});
  }
  return all;
}

class Account {
 public:
  Account(const Ledger& ledger, std::uint8_t device, const format::OutOfMemory& failed)
      : ledger_(ledger),
        wanted_bytes_(failed.size_bytes),
        wanted_(failed.site != 0 ? ledger.sites()[failed.site] : format::Site{}),
        blocks_(blocks_on(ledger, device)),
        charges_(pin_blocks(blocks_)) {}

  void add(const Range& range) {
    const auto first = std::ranges::lower_bound(blocks_, range.address, {}, &LiveRow::address);
    const auto last = std::ranges::lower_bound(blocks_, range.end(), {}, &LiveRow::address);
    const std::span<const LiveRow* const> blocks(first, last);
    const bool wants_small = is_small_request(wanted_bytes_);
    const bool is_small = !range.is_expandable ? is_small_segment(range.size_bytes)
                          : blocks.empty()     ? wants_small
                                               : is_small_request(blocks.front()->requested_bytes);
    const std::uint64_t unit_bytes = range.is_expandable ? page_bytes(is_small) : range.size_bytes;
    serves_ =
        range.stream == wanted_.stream && range.pool == wanted_.pool && is_small == wants_small;
    base::ReleaseUnits units(range.address, range.end(), unit_bytes);
    std::uint64_t at = range.address;
    for (const LiveRow* block : blocks) {
      add_gap(units, at, block->address);
      at = std::max(at, block->address + block->size_bytes);
    }
    add_gap(units, at, range.end());
    units.finish([&](const base::ReleaseUnit& unit) { add_unit(unit); });
  }

  Pins finish() {
    const std::vector<base::OwnerPins>& by_site = charges_.by_owner();
    for (std::uint32_t site = 0; site < by_site.size(); ++site) {
      if (by_site[site].blocks > 0) pins_.rows.push_back(row_of(site, by_site[site]));
    }
    std::ranges::sort(pins_.rows, std::ranges::greater{}, &plimsoll_pin::pinned_bytes);
    return std::move(pins_);
  }

 private:
  void add_gap(base::ReleaseUnits& units, std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return;
    const std::uint64_t bytes = end - begin;
    pins_.sums.free_bytes += bytes;
    if (serves_) {
      pins_.sums.largest_usable_bytes = std::max(pins_.sums.largest_usable_bytes, bytes);
    }
    const bool is_stranded = !(serves_ && bytes >= wanted_bytes_);
    units.add_gap(begin, end, is_stranded, [&](const base::ReleaseUnit& unit) { add_unit(unit); });
  }

  void add_unit(const base::ReleaseUnit& unit) {
    if (unit.is_free()) return;
    pins_.sums.stranded_bytes += unit.stranded_bytes;
    charges_.charge(unit, [](std::size_t) {});
  }

  plimsoll_pin row_of(std::uint32_t site, const base::OwnerPins& pins) const {
    plimsoll_pin row{};
    if (site != 0) {
      const format::Site& place = ledger_.sites()[site];
      row.layer = place.layer;
      row.outer_op = place.outer_op;
      row.stack = place.stack;
    }
    row.count = pins.blocks;
    row.size_bytes = pins.block_bytes;
    row.pinned_bytes = pins.pinned_bytes;
    return row;
  }

  const Ledger& ledger_;
  const std::uint64_t wanted_bytes_;
  const format::Site wanted_;
  const std::vector<const LiveRow*> blocks_;  // by address
  base::PinCharges charges_;                  // to sites
  Pins pins_;
  bool serves_ = false;  // the allocator searches the current range for the request
};

}  // namespace

Pins find_pins(const Ledger& ledger, std::uint8_t device) {
  const format::OutOfMemory* const failed = ledger.last_failure(device);
  if (failed == nullptr) return {};
  Account account(ledger, device, *failed);
  for (const Range& range : ranges_of(ledger, device)) account.add(range);
  return account.finish();
}

}  // namespace plimsoll::record
