#include "record/hot/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace plimsoll::record {
namespace {

struct SmallRing {
  explicit SmallRing(std::uint64_t capacity) : slots(capacity) {
    ring.attach(slots.data(), capacity);
  }
  bool push(std::uint64_t value, Ring::Need need = Ring::Need::kOther) {
    Event* event = ring.claim(need);
    if (event == nullptr) return false;
    event->address = value;
    ring.publish();
    return true;
  }
  std::vector<Event> slots;
  Ring ring;
};

TEST(Ring, returns_the_events_that_were_written) {
  SmallRing small(8);
  EXPECT_TRUE(small.push(1));
  EXPECT_TRUE(small.push(2));
  ASSERT_EQ(small.ring.head(), 2u);
  EXPECT_EQ(small.ring.at(0).address, 1u);
  EXPECT_EQ(small.ring.at(1).address, 2u);
}

TEST(Ring, drops_events_that_do_not_fit_and_counts_them) {
  SmallRing small(8);
  for (std::uint64_t i = 0; i < 11; ++i) EXPECT_EQ(small.push(i), i < 8);
  EXPECT_EQ(small.ring.dropped(), 3u);
  small.ring.release(2);
  EXPECT_TRUE(small.push(11));
  EXPECT_TRUE(small.push(12));
  EXPECT_FALSE(small.push(13));
  EXPECT_EQ(small.ring.at(9).address, 12u);
}

TEST(Ring, reserves_slots_for_frees) {
  SmallRing small(16);
  int allocs = 0;
  while (small.push(1, Ring::Need::kAlloc)) ++allocs;
  EXPECT_EQ(allocs, 14);
  EXPECT_TRUE(small.push(2));
  EXPECT_TRUE(small.push(3));
  EXPECT_FALSE(small.push(4));
}

TEST(Ring, two_slots_are_claimed_and_published_together) {
  SmallRing small(8);
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_NE(small.ring.claim(Ring::Need::kOther, 2), nullptr);
    small.ring.second()->address = i;
    small.ring.publish(2);
  }
  EXPECT_TRUE(small.push(7));
  EXPECT_EQ(small.ring.claim(Ring::Need::kOther, 2), nullptr);  // one slot is left
  EXPECT_EQ(small.ring.dropped(), 1u);
  small.ring.release(2);
  ASSERT_NE(small.ring.claim(Ring::Need::kOther, 2), nullptr);  // wraps around the end of the ring
  small.ring.second()->address = 9;
  small.ring.publish(2);
  EXPECT_EQ(small.ring.at(5).address, 2u);
  EXPECT_EQ(small.ring.at(8).address, 9u);
  EXPECT_EQ(small.slots[0].address, 9u);
}

TEST(Ring, without_memory_drops_everything) {
  Ring ring;
  EXPECT_EQ(ring.claim(Ring::Need::kOther), nullptr);
  EXPECT_EQ(ring.dropped(), 1u);
}

// Writes an event like the hooks, with the fast path if possible. Returns false if it was dropped.
bool put(Ring& ring, std::uint64_t value, Ring::Need need, int& asked) {
  Event* event = ring.try_claim();
  const bool is_immediate = event != nullptr;
  if (!is_immediate) event = ring.claim(need);
  if (event == nullptr) return false;
  event->address = value;
  if (is_immediate) {
    ring.publish_one();
  } else if (ring.publish()) {
    ++asked;
  }
  return true;
}

TEST(Ring, wakes_the_drain_when_it_is_half_full) {
  SmallRing with_try_claim(64), without_try_claim(64);
  int asked = 0, asked_by_hooks = 0;
  for (std::uint64_t i = 0; i < 64; ++i) {
    ASSERT_NE(with_try_claim.ring.claim(Ring::Need::kOther), nullptr);
    if (with_try_claim.ring.publish()) ++asked;
    ASSERT_TRUE(put(without_try_claim.ring, i, Ring::Need::kOther, asked_by_hooks));
    EXPECT_EQ(asked_by_hooks, asked) << i;
  }
  EXPECT_GE(asked, 1);
  EXPECT_LE(asked, 4);
}

TEST(Ring, the_fast_path_takes_no_more_slots) {
  SmallRing small(64);
  int asked = 0;
  std::uint64_t allocs = 0;
  while (put(small.ring, allocs, Ring::Need::kAlloc, asked)) ++allocs;
  EXPECT_EQ(allocs, 56u);
  std::uint64_t frees = 0;
  while (put(small.ring, allocs + frees, Ring::Need::kOther, asked)) ++frees;
  EXPECT_EQ(frees, 8u);
  EXPECT_EQ(small.ring.dropped(), 2u);
  small.ring.release(40);
  while (put(small.ring, allocs + frees, Ring::Need::kAlloc, asked)) ++allocs;
  EXPECT_EQ(allocs, 88u);
  for (std::uint64_t i = 40; i < small.ring.head(); ++i) EXPECT_EQ(small.ring.at(i).address, i);
}

TEST(Ring, is_mostly_written_by_the_fast_path) {
  SmallRing small(64);
  int slow = 0;
  for (std::uint64_t i = 0; i < 6'400; ++i) {
    if (small.ring.try_claim() != nullptr) {
      small.ring.publish_one();
    } else {
      ++slow;
      ASSERT_NE(small.ring.claim(Ring::Need::kAlloc), nullptr);
      small.ring.publish();
    }
    small.ring.release(small.ring.head());
  }
  EXPECT_LE(slow, 2 * 6'400 / 16);
}

TEST(RingThreads, counts_every_lost_event_and_keeps_the_order) {
  constexpr std::uint64_t kEvents = 300'000;
  SmallRing small(1024);
  std::atomic<bool> is_over{false};
  std::thread maker([&] {
    for (std::uint64_t i = 1; i <= kEvents; ++i) {
      int asked = 0;
      put(small.ring, i, Ring::Need::kOther, asked);
      if (i % 512 == 0) std::this_thread::yield();
    }
    is_over = true;
  });
  std::uint64_t taken = 0, last = 0, out_of_order = 0;
  for (bool goes_on = true; goes_on;) {
    goes_on = !is_over;
    const std::uint64_t head = small.ring.head();
    for (std::uint64_t at = small.ring.tail(); at != head; ++at) {
      const std::uint64_t value = small.ring.at(at).address;
      if (value <= last) ++out_of_order;
      last = value;
      ++taken;
    }
    small.ring.release(head);
  }
  maker.join();
  EXPECT_EQ(out_of_order, 0u);
  EXPECT_EQ(taken + small.ring.dropped(), kEvents);
}

TEST(Event, keeps_ticks_sizes_and_kinds) {
  Event event{};
  event.stamp = make_stamp(0x002B'CDEF'0123'4567, Kind::kMark, 4, 2);
  event.size = make_size(123'456'789'012, 200);
  EXPECT_EQ(event.ticks(), 0x002B'CDEF'0123'4567u);
  EXPECT_EQ(event.kind(), Kind::kMark);
  EXPECT_EQ(event.phase(), 4);
  EXPECT_EQ(event.autograd(), 2);
  const auto last = static_cast<Kind>((1u << kKindBits) - 1);
  EXPECT_EQ(event.size_bytes(), 123'456'789'012u);
  EXPECT_EQ(event.device(), 200);
  EXPECT_EQ(make_size(~std::uint64_t{0}, 1) >> 8, kMaxSizeBytes);
  event.stamp = make_stamp(kTickMask, last, 15, 3);
  EXPECT_EQ(event.kind(), last);
  EXPECT_EQ(event.autograd(), 3);
  EXPECT_EQ(event.ticks(), kTickMask);
}

TEST(Event, its_ticks_survive_wraparound) {
  const std::uint64_t now = 5 * (kTickMask + 1) + 10;
  for (const std::uint64_t ticks : {now, now - 1, now - 11, now + 7, now - (kTickMask >> 2)}) {
    EXPECT_EQ(full_ticks(ticks & kTickMask, now), ticks);
  }
}

}  // namespace
}  // namespace plimsoll::record
