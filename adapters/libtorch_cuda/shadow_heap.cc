#include "shadow_heap.h"

#include <algorithm>
#include <bit>

#include "plimsoll/caching_allocator.h"

namespace plimsoll::libtorch_cuda {
namespace {

using namespace caching_allocator;

constexpr std::size_t kFirstBlocks = 4096;

// plimsoll_segment_action
constexpr std::uint8_t kAlloc = 0, kFree = 1, kMap = 2, kUnmap = 3;

}  // namespace

ShadowHeap::ShadowHeap(const HeapSettings& settings) noexcept { clear(settings); }

void ShadowHeap::clear(const HeapSettings& settings) noexcept {
  settings_ = settings;
  ranges_.clear();
  blocks_.clear();
  unused_ = seeded_ = kNone;
  std::fill(slots_.begin(), slots_.end(), Slot{});
  allocated_bytes_ = active_bytes_ = reserved_bytes_ = unexplained_ = 0;
}

// ---- the allocator's rules --------------------------------------------------------------------

std::uint64_t ShadowHeap::rounded(std::uint64_t requested_bytes) const noexcept {
  return block_bytes(requested_bytes, settings_.roundup_power2_divisions);
}

// A pool of the program's own allocator has no expandable segments, whatever the settings are.
bool ShadowHeap::is_split(const Range& range, std::uint64_t size_bytes,
                          std::uint64_t remaining_bytes) const noexcept {
  const bool is_small = is_small_request(size_bytes) ||
                        (!range.is_expandable && is_small_segment(range.end - range.address));
  const bool is_of_pages =
      settings_.has_expandable_segments && (range.is_expandable || range.pool == HeapPool{});
  if (is_small || is_of_pages) return remaining_bytes >= kMinBlockBytes;
  return size_bytes < settings_.max_split_bytes && remaining_bytes > kLargestSmallRequest;
}

// ---- the allocator's actions ------------------------------------------------------------------

std::uint64_t ShadowHeap::alloc(std::uint64_t address, std::uint64_t requested_bytes,
                                std::uint64_t /*stream*/) noexcept {
  const std::uint32_t at = find(address);
  const std::uint64_t size = rounded(requested_bytes);
  if (at == kNone || !blocks_[at].is_free() || blocks_[at].size_bytes < size || !make_room()) {
    return misfit();
  }
  const Range* range = range_around(address);
  if (range == nullptr) return misfit();
  if (is_split(*range, size, blocks_[at].size_bytes - size)) cut_off(at, size);
  Block& block = blocks_[at];
  block.state = BlockState::kAllocated;
  block.requested_bytes = requested_bytes;
  allocated_bytes_ += block.size_bytes;
  active_bytes_ += block.size_bytes;
  return block.size_bytes;
}

std::uint64_t ShadowHeap::free_requested(std::uint64_t address) noexcept {
  const std::uint32_t at = find(address);
  if (at == kNone || blocks_[at].state != BlockState::kAllocated) return misfit();
  blocks_[at].state = BlockState::kPendingFree;
  allocated_bytes_ -= blocks_[at].size_bytes;
  return blocks_[at].size_bytes;
}

std::uint64_t ShadowHeap::free_completed(std::uint64_t address) noexcept {
  const std::uint32_t at = find(address);
  if (at == kNone || blocks_[at].is_free()) return misfit();
  Block& block = blocks_[at];
  const std::uint64_t size = block.size_bytes;
  if (block.state == BlockState::kAllocated) allocated_bytes_ -= size;
  active_bytes_ -= size;
  block.state = BlockState::kInactive;
  join_with_next(at);
  if (block.previous != kNone) join_with_next(block.previous);
  return size;
}

bool ShadowHeap::segment(std::uint8_t action, std::uint64_t address, std::uint64_t size_bytes,
                         std::uint64_t stream, HeapPool pool) noexcept {
  const Range range{address, address + size_bytes, stream, pool, action == kMap};
  bool fits = size_bytes > 0 && range.end > address;
  switch (action) {
    case kAlloc:
      fits = fits && make_room() && add_range(range);
      if (fits) add_after(kNone, kNone, {.address = address, .size_bytes = size_bytes});
      break;
    case kFree:
      fits = fits && free_segment(address, size_bytes);
      break;
    case kMap:
      fits = fits && make_room() && map(range);
      break;
    case kUnmap:
      fits = fits && make_room() && unmap(address, size_bytes);
      break;
    default:
      fits = false;
  }
  if (!fits) misfit();
  return fits;
}

bool ShadowHeap::correct(std::uint64_t address, std::uint64_t size_bytes) noexcept {
  const std::uint32_t at = find(address);
  if (at == kNone || blocks_[at].state != BlockState::kAllocated || size_bytes == 0 || !make_room())
    return false;
  const std::uint64_t before = blocks_[at].size_bytes;
  if (size_bytes == before) return true;
  const std::uint32_t next = blocks_[at].next;
  const bool has_free_next = next != kNone && blocks_[next].is_free();
  const std::uint64_t most = before + (has_free_next ? blocks_[next].size_bytes : 0);
  if (size_bytes > most) return false;
  if (has_free_next) {  // allocates the whole block, then frees the excess
    remove(next);
    blocks_[at].size_bytes = most;
  }
  if (size_bytes < most) cut_off(at, size_bytes);
  allocated_bytes_ += size_bytes - before;
  active_bytes_ += size_bytes - before;
  return true;
}

// ---- seeding ----------------------------------------------------------------------------------

void ShadowHeap::add_segment(std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream,
                             HeapPool pool, bool is_expandable) noexcept {
  seeded_ = kNone;
  if (!add_range({address, address + size_bytes, stream, pool, is_expandable})) misfit();
}

void ShadowHeap::add_block(std::uint64_t address, std::uint64_t size_bytes,
                           std::uint64_t requested_bytes, BlockState state) noexcept {
  if (!make_room() || find(address) != kNone) {
    misfit();
    return;
  }
  seeded_ = add_after(seeded_, kNone, {address, size_bytes, requested_bytes, kNone, kNone, state});
  if (state == BlockState::kAllocated) allocated_bytes_ += size_bytes;
  if (state != BlockState::kInactive) active_bytes_ += size_bytes;
}

// ---- segments ---------------------------------------------------------------------------------

std::size_t ShadowHeap::range_after(std::uint64_t address) const noexcept {
  const auto found =
      std::upper_bound(ranges_.begin(), ranges_.end(), address,
                       [](std::uint64_t a, const Range& range) { return a < range.address; });
  return static_cast<std::size_t>(found - ranges_.begin());
}

const ShadowHeap::Range* ShadowHeap::range_around(std::uint64_t address) const noexcept {
  const std::size_t after = range_after(address);
  return after > 0 && address < ranges_[after - 1].end ? &ranges_[after - 1] : nullptr;
}

HeapPool ShadowHeap::pool_of(std::uint64_t address) const noexcept {
  const Range* range = range_around(address);
  return range != nullptr ? range->pool : HeapPool{};
}

std::uint32_t ShadowHeap::last_block(const Range& range) const noexcept {
  std::uint32_t at = find(range.address);
  while (at != kNone && blocks_[at].next != kNone) at = blocks_[at].next;
  return at;
}

bool ShadowHeap::add_range(const Range& range) noexcept try {
  const std::size_t after = range_after(range.address);
  if (after > 0 && ranges_[after - 1].end > range.address) return false;
  if (after < ranges_.size() && ranges_[after].address < range.end) return false;
  ranges_.insert(ranges_.begin() + static_cast<std::ptrdiff_t>(after), range);
  reserved_bytes_ += range.end - range.address;
  return true;
} catch (...) {
  return false;  // no memory
}

// Only a segment that is one free block is returned to the driver.
bool ShadowHeap::free_segment(std::uint64_t address, std::uint64_t size_bytes) noexcept {
  const std::uint32_t at = find(address);
  const std::size_t after = range_after(address);
  if (at == kNone || after == 0 || ranges_[after - 1].address != address) return false;
  if (ranges_[after - 1].end != address + size_bytes) return false;
  if (!blocks_[at].is_free() || blocks_[at].size_bytes != size_bytes) return false;
  remove(at);
  ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(after - 1));
  reserved_bytes_ -= size_bytes;
  return true;
}

// The pages are one free block, joined with free neighbors. Reservations are larger than the
// device, so adjacent pages of one stream belong to one segment.
bool ShadowHeap::map(const Range& mapped) noexcept {
  if (!add_range(mapped)) return false;
  const std::size_t here = range_after(mapped.address) - 1;
  const auto is_same_segment = [](const Range& range, const Range& other) {
    return range.is_expandable && range.stream == other.stream;
  };
  const bool joins_right = here + 1 < ranges_.size() && ranges_[here + 1].address == mapped.end &&
                           is_same_segment(ranges_[here + 1], mapped);
  const bool joins_left = here > 0 && ranges_[here - 1].end == mapped.address &&
                          is_same_segment(ranges_[here - 1], mapped);
  const std::uint32_t previous = joins_left ? last_block(ranges_[here - 1]) : kNone;
  const std::uint32_t next = joins_right ? find(mapped.end) : kNone;
  const std::uint32_t at = add_after(
      previous, next, {.address = mapped.address, .size_bytes = mapped.end - mapped.address});
  join_with_next(at);
  if (previous != kNone) join_with_next(previous);
  const auto place = ranges_.begin() + static_cast<std::ptrdiff_t>(here);
  if (joins_right) {
    place->end = ranges_[here + 1].end;
    ranges_.erase(place + 1);
  }
  if (joins_left) {
    ranges_[here - 1].end = place->end;
    ranges_.erase(place);
  }
  return true;
}

// Unmaps pages inside one free block; the rest of the block on both sides stays free.
bool ShadowHeap::unmap(std::uint64_t address, std::uint64_t size_bytes) noexcept try {
  const std::uint64_t end = address + size_bytes;
  const std::size_t after = range_after(address);
  if (after == 0 || ranges_[after - 1].end < end || !ranges_[after - 1].is_expandable) return false;
  std::uint32_t at = find(ranges_[after - 1].address);
  while (at != kNone && blocks_[at].end() <= address) at = blocks_[at].next;
  if (at == kNone || !blocks_[at].is_free() || blocks_[at].end() < end ||
      blocks_[at].address > address)
    return false;
  ranges_.reserve(ranges_.size() + 1);
  Range& left = ranges_[after - 1];
  Range right = left;
  if (blocks_[at].end() > end) cut_off(at, end - blocks_[at].address);
  const std::uint32_t next = blocks_[at].next;
  if (next != kNone) blocks_[next].previous = kNone;
  blocks_[at].next = kNone;
  if (blocks_[at].address < address) {
    blocks_[at].size_bytes = address - blocks_[at].address;
  } else {
    remove(at);
  }
  left.end = address;
  right.address = end;
  if (right.address < right.end) {
    ranges_.insert(ranges_.begin() + static_cast<std::ptrdiff_t>(after), right);
  }
  if (ranges_[after - 1].address == ranges_[after - 1].end) {
    ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(after - 1));
  }
  reserved_bytes_ -= size_bytes;
  return true;
} catch (...) {
  return false;  // no memory
}

// ---- blocks -----------------------------------------------------------------------------------

bool ShadowHeap::make_room() noexcept try {
  if (unused_ != kNone) return true;
  const std::size_t before = blocks_.size();
  const std::size_t count = std::max(kFirstBlocks, before * 2);
  std::vector<Slot> slots(count * 2);
  blocks_.resize(count);
  slots.swap(slots_);
  for (const Slot& slot : slots) {
    if (slot.block != kNone) index(slot.address, slot.block);
  }
  for (std::size_t i = count; i-- > before;) {
    blocks_[i].next = unused_;
    unused_ = static_cast<std::uint32_t>(i);
  }
  return true;
} catch (...) {
  return false;  // no memory
}

std::uint32_t ShadowHeap::add_after(std::uint32_t previous, std::uint32_t next,
                                    const Block& block) noexcept {
  const std::uint32_t at = unused_;
  unused_ = blocks_[at].next;
  blocks_[at] = block;
  link(previous, at);
  link(at, next);
  index(block.address, at);
  return at;
}

void ShadowHeap::remove(std::uint32_t at) noexcept {
  forget(blocks_[at].address);
  link(blocks_[at].previous, blocks_[at].next);
  blocks_[at] = Block{};
  blocks_[at].next = unused_;
  unused_ = at;
}

void ShadowHeap::link(std::uint32_t previous, std::uint32_t next) noexcept {
  if (previous != kNone) blocks_[previous].next = next;
  if (next != kNone) blocks_[next].previous = previous;
}

// The tail becomes a free block.
void ShadowHeap::cut_off(std::uint32_t at, std::uint64_t size_bytes) noexcept {
  const Block tail{.address = blocks_[at].address + size_bytes,
                   .size_bytes = blocks_[at].size_bytes - size_bytes};
  blocks_[at].size_bytes = size_bytes;
  add_after(at, blocks_[at].next, tail);
}

void ShadowHeap::join_with_next(std::uint32_t at) noexcept {
  const std::uint32_t next = blocks_[at].next;
  if (next == kNone || !blocks_[at].is_free() || !blocks_[next].is_free()) return;
  blocks_[at].size_bytes += blocks_[next].size_bytes;
  remove(next);
}

// ---- the index --------------------------------------------------------------------------------

std::size_t ShadowHeap::home(std::uint64_t address) const noexcept {
  return static_cast<std::size_t>((address / kMinBlockBytes * 0x9E3779B97F4A7C15u) >> 32) &
         (slots_.size() - 1);
}

std::uint32_t ShadowHeap::find(std::uint64_t address) const noexcept {
  if (slots_.empty()) return kNone;
  for (std::size_t i = home(address);; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].block == kNone || slots_[i].address == address) return slots_[i].block;
  }
}

void ShadowHeap::index(std::uint64_t address, std::uint32_t block) noexcept {
  std::size_t i = home(address);
  while (slots_[i].block != kNone) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = {address, block};
}

// Entries after the erased one move up, so that no search ends at a hole.
void ShadowHeap::forget(std::uint64_t address) noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t hole = home(address);
  while (slots_[hole].address != address || slots_[hole].block == kNone) hole = (hole + 1) & mask;
  for (std::size_t i = (hole + 1) & mask; slots_[i].block != kNone; i = (i + 1) & mask) {
    const std::size_t from_home = (i - home(slots_[i].address)) & mask;
    if (from_home < ((i - hole) & mask)) continue;
    slots_[hole] = slots_[i];
    hole = i;
  }
  slots_[hole] = Slot{};
}

}  // namespace plimsoll::libtorch_cuda
