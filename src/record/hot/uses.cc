#include "record/hot/uses.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace plimsoll::record {

bool Uses::clear() noexcept {
  constexpr std::size_t kBytes = kBuckets * sizeof(Bucket);
  if (buckets_ != nullptr) return madvise(buckets_, kBytes, MADV_DONTNEED) == 0;
  void* const pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return false;
  madvise(pages, kBytes, MADV_NOHUGEPAGE);  // few of its pages are used
  buckets_ = static_cast<Bucket*>(pages);   // zeroed pages are valid buckets
  return true;
}

std::size_t Uses::search(const Bucket& bucket, std::uint64_t address) noexcept {
  std::size_t at = 0;
  while (at < kSlots && bucket.addresses[at].load(std::memory_order_relaxed) != address) ++at;
  return at;
}

std::size_t Uses::take(Bucket& bucket, std::uint64_t address) noexcept {
  const std::size_t known = find(bucket, address);
  if (known != kSlots) return known;
  const std::size_t home = home_of(address);
  for (std::size_t i = 0; i < kSlots; ++i) {
    const std::size_t at = (home + i) % kSlots;
    std::uint64_t none = 0;
    if (bucket.addresses[at].load(std::memory_order_relaxed) != 0) continue;
    if (i > 0) bucket.slots[home].is_missed.store(true, std::memory_order_relaxed);
    if (bucket.addresses[at].compare_exchange_strong(none, address, std::memory_order_relaxed)) {
      return at;
    }
  }
  return kSlots;
}

void Uses::begin(std::uint64_t address) noexcept {
  Bucket& bucket = bucket_of(address);
  const std::size_t at = take(bucket, address);
  if (at == kSlots) return;
  Slot& slot = bucket.slots[at];
  slot.last.store(clock(), std::memory_order_relaxed);
  slot.gap.store(0, std::memory_order_relaxed);
  slot.owner.store(0, std::memory_order_relaxed);
  slot.is_used.store(false, std::memory_order_relaxed);
  slot.is_escaped.store(false, std::memory_order_relaxed);
}

format::EndUse Uses::use_of(const Slot& slot) const noexcept {
  if (slot.is_escaped.load(std::memory_order_relaxed)) return {};
  const bool is_running = slot.owner.load(std::memory_order_relaxed) != 0;
  const std::uint64_t age = is_running ? 0 : clock() - slot.last.load(std::memory_order_relaxed);
  const std::uint32_t gap = slot.gap.load(std::memory_order_relaxed);
  const bool is_used = slot.is_used.load(std::memory_order_relaxed);
  return {
      .age_plus_one = static_cast<std::uint32_t>(std::min<std::uint64_t>(age, UINT32_MAX - 1)) + 1,
      .gap = static_cast<std::uint8_t>((gap == 0 ? 0 : std::bit_width(gap - 1) + 1) |
                                       (is_used ? 0 : format::kNeverUsed))};
}

format::EndUse Uses::use_of(std::uint64_t address) const noexcept {
  const Slot* const slot = find(address);
  return slot == nullptr ? format::EndUse{} : use_of(*slot);
}

format::EndUse Uses::freed(std::uint64_t address) noexcept {
  Bucket& bucket = bucket_of(address);
  const std::size_t at = find(bucket, address);
  if (at == kSlots) return {};
  const format::EndUse use = use_of(bucket.slots[at]);
  bucket.addresses[at].store(0, std::memory_order_relaxed);
  return use;
}

void Uses::escape(std::uint64_t address) noexcept {
  if (Slot* const slot = find(address)) slot->is_escaped.store(true, std::memory_order_relaxed);
}

void RunningUses::escape_all(std::uint32_t owner) noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    if (slots_[i]->owner.load(std::memory_order_relaxed) != owner) continue;
    slots_[i]->is_escaped.store(true, std::memory_order_relaxed);
  }
  escapes_at_end_ = false;
}

bool RunningUses::grow() noexcept {
  constexpr std::size_t kFirst = 256, kMost = std::size_t{1} << 20;
  const std::size_t capacity = capacity_ == 0 ? kFirst : 2 * capacity_;
  if (capacity > kMost) return false;
  void* const moved = std::realloc(slots_, capacity * sizeof(Uses::Slot*));
  if (moved == nullptr) return false;
  slots_ = static_cast<Uses::Slot**>(moved);
  capacity_ = capacity;
  return true;
}

}  // namespace plimsoll::record
