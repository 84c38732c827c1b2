// When the memory at each address was last used, for all live allocations. The clock counts
// allocations: a program can lower a peak only by freeing memory before an allocation.
//
// A use by a running operator lasts until the operator ends: end_uses() sets its time. So what an
// operator reads, or has allocated, is in use while it allocates more. Memory that the operators of
// two threads use simultaneously escapes, since a slot has space for one of them.
//
// The table has a fixed number of buckets of eight slots, chosen so that neighboring addresses are
// in neighboring buckets. An address takes its home slot, or another one of its bucket if that is
// taken. An allocation whose bucket is full has no slot, and its last use is unknown. Any thread
// may call every function; a slot is written by threads that use its memory, which the program
// itself must keep from freeing it meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "format/records.h"

namespace plimsoll::record {

class Uses {
 public:
  Uses() = default;
  Uses(const Uses&) = delete;
  Uses& operator=(const Uses&) = delete;

  // Forgets everything. Returns false if there is no memory.
  bool clear() noexcept;

  void allocated(std::uint64_t address) noexcept {
    clock_.fetch_add(1, std::memory_order_relaxed);
    begin(address);
  }
  // Memory that existed earlier. Its uses until now are unknown, and count as none.
  void adopted(std::uint64_t address) noexcept {
    if (find(address) == nullptr) begin(address);
  }
  // Returns the last use of memory that is being freed, and forgets it.
  format::EndUse freed(std::uint64_t address) noexcept;
  // The same while it stays live.
  format::EndUse use_of(std::uint64_t address) const noexcept;
  // Whether its last use is known, and was before an allocation with a lower number than `clock`.
  bool is_unused_since(std::uint64_t address, std::uint64_t clock) const noexcept {
    const Slot* const slot = find(address);
    return slot != nullptr && !slot->is_escaped.load(std::memory_order_relaxed) &&
           slot->owner.load(std::memory_order_relaxed) == 0 &&
           slot->last.load(std::memory_order_relaxed) < clock;
  }
  void escape(std::uint64_t address) noexcept;
  std::uint64_t clock() const noexcept { return clock_.load(std::memory_order_relaxed); }

  // Calls visit(begin, size_bytes) for its memory.
  template <typename Visit>
  void visit_pages(Visit&& visit) const {
    if (buckets_ != nullptr) visit(buckets_, kBuckets * sizeof(Bucket));
  }

 private:
  friend class RunningUses;

  struct Slot {
    std::atomic<std::uint64_t> last{0};
    std::atomic<std::uint32_t> gap{0};    // the longest between two uses
    std::atomic<std::uint32_t> owner{0};  // of the thread whose running operator uses it; 0: none
    std::atomic<bool> is_used{false};
    std::atomic<bool> is_escaped{false};
    std::atomic<bool> is_missed{false};  // an address whose home this is has taken another slot
  };
  static constexpr std::size_t kSlots = 8, kBuckets = std::size_t{1} << 17;
  struct alignas(64) Bucket {
    std::array<std::atomic<std::uint64_t>, kSlots> addresses{};
    std::array<Slot, kSlots> slots{};
  };

  // Allocators align to 64 bytes or more and take some for themselves: a bucket for each 512 bytes
  // rarely has more than five neighbors. Distant regions are mixed.
  Bucket& bucket_of(std::uint64_t address) const noexcept {
    return buckets_[((address >> 9U) + (address >> 26U) * 0x9E3779B1U) % kBuckets];
  }
  // Addresses within 512 bytes have different homes.
  static std::size_t home_of(std::uint64_t address) noexcept { return (address >> 6U) % kSlots; }
  // kSlots if the address has no slot.
  static std::size_t find(const Bucket& bucket, std::uint64_t address) noexcept {
    const std::size_t home = home_of(address);
    if (bucket.addresses[home].load(std::memory_order_relaxed) == address) return home;
    const bool is_elsewhere = bucket.slots[home].is_missed.load(std::memory_order_relaxed);
    return is_elsewhere ? search(bucket, address) : kSlots;
  }
  static std::size_t search(const Bucket& bucket, std::uint64_t address) noexcept;
  Slot* find(std::uint64_t address) const noexcept {
    Bucket& bucket = bucket_of(address);
    const std::size_t at = find(bucket, address);
    return at == kSlots ? nullptr : &bucket.slots[at];
  }
  // The slot for new memory: its own (a free was missed) or a free one; kSlots if there is none.
  static std::size_t take(Bucket& bucket, std::uint64_t address) noexcept;
  void begin(std::uint64_t address) noexcept;
  format::EndUse use_of(const Slot& slot) const noexcept;

  Bucket* buckets_ = nullptr;  // zeroed pages, never freed
  std::atomic<std::uint64_t> clock_{0};
};

// What the running operator of one thread uses; owned by that thread.
class RunningUses {
 public:
  // `owner` identifies the thread; not 0.
  void use(Uses& uses, std::uint32_t owner, const std::uint64_t* addresses,
           std::size_t count) noexcept {
    const std::uint64_t now = uses.clock();
    for (std::size_t i = 0; i < count; ++i) {
      Uses::Slot* const slot = uses.find(addresses[i]);
      if (slot == nullptr || slot->owner.load(std::memory_order_relaxed) == owner) continue;
      begin(*slot, owner, now);
    }
  }
  // The running operator has allocated it: no use of an argument, but in use until the operator
  // ends.
  void made(const Uses& uses, std::uint32_t owner, std::uint64_t address) noexcept {
    if (Uses::Slot* const slot = uses.find(address)) add(*slot, owner);
  }
  void end(const Uses& uses, std::uint32_t owner) noexcept {
    if (count_ == 0 || regions_ != 0) return;
    if (escapes_at_end_) [[unlikely]]
      escape_all(owner);
    const std::uint64_t now = uses.clock();
    for (std::size_t i = 0; i < count_; ++i) {
      Uses::Slot& slot = *slots_[i];
      const std::uint32_t current = slot.owner.load(std::memory_order_relaxed);
      // Its memory may have been freed meanwhile, and the slot reused. Or two threads took the slot
      // simultaneously, and neither saw the other.
      if (current != owner && current != 0) [[unlikely]] {
        slot.is_escaped.store(true, std::memory_order_relaxed);
        continue;
      }
      slot.last.store(now, std::memory_order_relaxed);
      slot.owner.store(0, std::memory_order_relaxed);
    }
    count_ = 0;
  }

  // While a region runs, uses do not end.
  void begin_region() noexcept { ++regions_; }
  void end_region() noexcept { regions_ -= regions_ != 0 ? 1 : 0; }
  bool is_in_region() const noexcept { return regions_ != 0; }
  // What is in use at the next end() escapes.
  void escape_at_end() noexcept { escapes_at_end_ = true; }

 private:
  void begin(Uses::Slot& slot, std::uint32_t owner, std::uint64_t now) noexcept {
    const std::uint64_t gap = now - slot.last.load(std::memory_order_relaxed);
    if (gap > slot.gap.load(std::memory_order_relaxed)) {
      slot.gap.store(gap < UINT32_MAX ? static_cast<std::uint32_t>(gap) : UINT32_MAX,
                     std::memory_order_relaxed);
    }
    slot.is_used.store(true, std::memory_order_relaxed);
    add(slot, owner);
  }
  void add(Uses::Slot& slot, std::uint32_t owner) noexcept {
    if (count_ == capacity_ && !grow()) {
      slot.is_escaped.store(true, std::memory_order_relaxed);
      return;
    }
    if (slot.owner.load(std::memory_order_relaxed) != 0) [[unlikely]] {  // of another thread
      slot.is_escaped.store(true, std::memory_order_relaxed);
    }
    slot.owner.store(owner, std::memory_order_relaxed);
    slots_[count_++] = &slot;
  }
  bool grow() noexcept;
  void escape_all(std::uint32_t owner) noexcept;

  Uses::Slot** slots_ = nullptr;  // reused while the thread state is, never freed
  std::size_t count_ = 0;
  std::size_t capacity_ = 0;
  std::uint32_t regions_ = 0;
  bool escapes_at_end_ = false;
};

}  // namespace plimsoll::record
