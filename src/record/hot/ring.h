// A ring of events between the one thread that makes them and the one that drains them. Neither
// waits for the other: who finds it full drops, and counts. The memory is touched only as far as it
// is used.
//
// A part at the end is kept for everything but allocations. A dropped allocation is missed until it
// is freed; a dropped free would make memory look alive for ever.
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

  // Takes `capacity` zeroed events, a power of two. Not while anyone uses the ring.
  void attach(Event* slots, std::uint64_t capacity) {
    slots_ = slots;
    mask_ = capacity - 1;
    capacity_ = capacity;
    alloc_limit_ = capacity - capacity / 8;
    quarter_ = capacity / 4;
    restart();
  }
  // Begins at the first slot again. Not while anyone uses the ring.
  void restart() {
    head_.store(0, std::memory_order_relaxed);
    tail_.store(0, std::memory_order_relaxed);
    seen_tail_ = 0;
    sure_until_ = 0;
  }
  std::uint64_t capacity() const { return capacity_; }
  Event* slots() const { return slots_; }

  // ---- the thread that makes events ----

  // The slot for the next event, or null: it is dropped and counted. There is room for `slots`.
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
  // The slot for the next event where neither claim() nor publish() has to look at the drain; else
  // null, and they do. publish_at_once() follows.
  Event* claim_at_once() {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    return head < sure_until_ ? &slots_[head & mask_] : nullptr;
  }
  void publish_at_once() {
    const std::uint64_t head = head_.load(std::memory_order_relaxed) + 1;
    head_.store(head, std::memory_order_release);  // pairs with head() of the drain
  }
  // The slot behind the claimed one, if there was room asked for it.
  Event* second() { return &slots_[(head_.load(std::memory_order_relaxed) + 1) & mask_]; }
  // The claimed slots are filled. True now and then when the ring is half full: wake the drain.
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
  std::uint64_t seen_tail_ = 0;   // the maker's last look at tail_
  std::uint64_t sure_until_ = 0;  // before it there is room, and no quarter ends
  std::atomic<std::uint64_t> head_{0};
  std::atomic<std::uint64_t> dropped_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};  // on a line of its own: the drain writes it
};

}  // namespace plimsoll::record
