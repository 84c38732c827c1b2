#include "record/ledger/pins.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/release_units.h"
#include "plimsoll/caching_allocator.h"

namespace plimsoll::record {
namespace {

using caching_allocator::is_small_request;
using caching_allocator::kSmallSegmentBytes;
using caching_allocator::page_bytes;

struct Range {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;
  std::uint32_t pool = 0;
  bool is_expandable = false;
  std::uint64_t end() const { return address + size_bytes; }
};

// Whole segments; for expandable ones, runs of adjacent pages.
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

class Account {
 public:
  Account(const Ledger& ledger, std::uint8_t device, const format::OutOfMemory& failed)
      : ledger_(ledger),
        wanted_bytes_(failed.size_bytes),
        wanted_(failed.site != 0 ? ledger.sites()[failed.site] : format::Site{}) {
    ledger.rows().for_each([&](const LiveRow& row) {
      if (row.device == device) blocks_.push_back(&row);
    });
    std::ranges::sort(blocks_, {}, &LiveRow::address);
  }

  void add(const Range& range) {
    const auto first = std::ranges::lower_bound(blocks_, range.address, {}, &LiveRow::address);
    const auto last = std::ranges::lower_bound(blocks_, range.end(), {}, &LiveRow::address);
    const std::span<const LiveRow* const> blocks(first, last);
    const bool wants_small = is_small_request(wanted_bytes_);
    const bool is_small = !range.is_expandable ? range.size_bytes <= kSmallSegmentBytes
                          : blocks.empty()     ? wants_small
                                               : is_small_request(blocks.front()->requested_bytes);
    unit_bytes_ = range.is_expandable ? page_bytes(is_small) : range.size_bytes;
    serves_ =
        range.stream == wanted_.stream && range.pool == wanted_.pool && is_small == wants_small;
    pinned_units_.clear();
    charged_.clear();
    base::ReleaseUnits units(range.address, range.end(), unit_bytes_);
    std::uint64_t at = range.address;
    for (const LiveRow* block : blocks) {
      add_gap(units, at, block->address);
      at = std::max(at, block->address + block->size_bytes);
    }
    add_gap(units, at, range.end());
    units.finish([&](const base::ReleaseUnit& unit) { add_unit(unit); });
    for (const LiveRow* block : blocks) charge(range, *block);
  }

  Pins finish() {
    for (const auto& [site, row] : by_site_) pins_.rows.push_back(row);
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
    pinned_units_.push_back(unit);
  }

  // A block pins the free memory of every unit it touches; each site counts once per unit.
  void charge(const Range& range, const LiveRow& block) {
    const std::uint64_t last_byte =
        block.address + std::max<std::uint64_t>(block.size_bytes, 1) - 1;
    const std::uint64_t first = (block.address - range.address) / unit_bytes_;
    const std::uint64_t last = (std::min(last_byte, range.end() - 1) - range.address) / unit_bytes_;
    std::uint64_t pinned = 0;
    bool is_pin = false;
    for (const std::uint64_t unit : {first, last}) {  // units in between have no free memory
      const std::uint64_t begin = range.address + unit * unit_bytes_;
      const auto found =
          std::ranges::lower_bound(pinned_units_, begin, {}, &base::ReleaseUnit::begin);
      if (found != pinned_units_.end() && found->begin == begin) {
        is_pin = true;
        if (charged_.emplace(unit, block.site).second) pinned += found->free_bytes;
      }
      if (first == last) break;
    }
    if (!is_pin) return;
    plimsoll_pin& row = by_site_[block.site];
    if (block.site != 0) {
      const format::Site& site = ledger_.sites()[block.site];
      row.layer = site.layer;
      row.outer_op = site.outer_op;
      row.stack = site.stack;
    }
    ++row.count;
    row.size_bytes += block.size_bytes;
    row.pinned_bytes += pinned;
  }

  const Ledger& ledger_;
  const std::uint64_t wanted_bytes_;
  const format::Site wanted_;
  std::vector<const LiveRow*> blocks_;  // by address
  Pins pins_;
  std::map<std::uint32_t, plimsoll_pin> by_site_;
  // State of the range being processed:
  std::uint64_t unit_bytes_ = 1;  // returned to the driver as one piece
  bool serves_ = false;           // the allocator searches this range for the request
  std::vector<base::ReleaseUnit> pinned_units_;                // by address
  std::set<std::pair<std::uint64_t, std::uint32_t>> charged_;  // unit and site
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
