// The ring buffer that carries the events of one thread from its hooks to the drain.
//
// - One writer, one reader: only the owning thread claims and publishes slots; only the drain
//   reads and releases them, under the recorder's state lock.
// - No waiting: neither side takes a lock. An event that does not fit is dropped and counted.
// - In order and whole: the drain sees events in the order of publishing. An event with details
//   takes two slots, which are published together.
// - The last eighth is reserved for events other than allocations. A dropped allocation is missing
//   until it is freed; a dropped free would make its memory look live forever.
// - The caller owns the slots. Memory is touched only as slots are used.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "record/hot/event.h"

namespace plimsoll::record {

class Ring {
 public:
  enum class Need : std::uint8_t { kAlloc, kOther };

  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Uses `capacity` zeroed slots, a power of two. No thread may use the ring during this call.
  void attach(Event* slots, std::uint64_t capacity) {
    slots_ = slots;
    mask_ = capacity - 1;
    capacity_ = capacity;
    alloc_limit_ = capacity - capacity / 8;
    quarter_ = capacity / 4;
    restart();
  }
  // Makes the ring empty, starting at the first slot. No thread may use the ring during this call.
  void restart() {
    head_.store(0, std::memory_order_relaxed);
    tail_.store(0, std::memory_order_relaxed);
    seen_tail_ = 0;
    sure_until_ = 0;
  }
  std::uint64_t capacity() const { return capacity_; }
  Event* slots() const { return slots_; }

  // ---- the writing thread ----

  // Reserves adjacent slots and returns the first. Returns null if they do not fit; the event is
  // then counted as dropped.
  Event* claim(Need need, std::uint64_t slots = 1) {
    const std::uint64_t last = head_.load(std::memory_order_relaxed) + slots - 1;
    const std::uint64_t limit = need == Need::kAlloc ? alloc_limit_ : capacity_;
    if (last - seen_tail_ >= alloc_limit_) [[unlikely]] {
      seen_tail_ = tail_.load(std::memory_order_acquire);  // pairs with release() of the drain
      if (last - seen_tail_ >= limit) {
        dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return nullptr;
      }
    }
    sure_until_ = std::min(seen_tail_ + alloc_limit_, (last + 1) | (quarter_ - 1));
    return &slots_[(last - slots + 1) & mask_];
  }
  // The fast path: returns the slot for the next event without reading the drain's position, or
  // null. After null, call claim() and publish(); otherwise publish_one().
  Event* try_claim() {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    return head < sure_until_ ? &slots_[head & mask_] : nullptr;
  }
  void publish_one() {
    const std::uint64_t head = head_.load(std::memory_order_relaxed) + 1;
    head_.store(head, std::memory_order_release);  // pairs with head() of the drain
  }
  // The slot after the claimed one, if it was reserved.
  Event* second() { return &slots_[(head_.load(std::memory_order_relaxed) + 1) & mask_]; }
  // Publishes the claimed slots. Returns true now and then while the ring is at least half full;
  // the caller should then wake the drain.
  bool publish(std::uint64_t slots = 1) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed) + slots;
    head_.store(head, std::memory_order_release);  // pairs with head() of the drain
    if ((head & (quarter_ - 1)) >= slots) [[likely]]
      return false;
    return head - tail_.load(std::memory_order_relaxed) >= capacity_ / 2;
  }

  // ---- the drain ----

  std::uint64_t head() const { return head_.load(std::memory_order_acquire); }
  std::uint64_t tail() const { return tail_.load(std::memory_order_relaxed); }
  const Event& at(std::uint64_t position) const { return slots_[position & mask_]; }
  void release(std::uint64_t tail) { tail_.store(tail, std::memory_order_release); }
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  Event* slots_ = nullptr;
  std::uint64_t mask_ = 0;
  std::uint64_t capacity_ = 0;
  std::uint64_t alloc_limit_ = 0;
  std::uint64_t quarter_ = 0;
  std::uint64_t seen_tail_ = 0;   // tail_ when the writer last read it
  std::uint64_t sure_until_ = 0;  // slots before it are free and do not cross the end of a quarter
  std::atomic<std::uint64_t> head_{0};
  std::atomic<std::uint64_t> dropped_{0};
  // On a separate cache line, because the drain writes it.
  alignas(64) std::atomic<std::uint64_t> tail_{0};
};

}  // namespace plimsoll::record
