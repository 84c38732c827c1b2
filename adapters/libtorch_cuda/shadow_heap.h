// ShadowHeap: reconstructs the blocks of one device from the events of torch's caching allocator,
// which have addresses and requested bytes but not the sizes of blocks. When a request is served
// from a free block, the allocator's own rule determines how much of it is allocated, so sizes are
// exact to the byte. The rule is in round_size() and should_split() of torch's
// c10/cuda/CUDACachingAllocator.cpp.
//
// Called by the allocating thread, under the device's lock. It does not throw, allocates only when
// it grows, and costs a few lookups per event. An event that does not fit its state is counted and
// changes nothing; the owner then seeds it again from a snapshot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "heap_settings.h"

namespace plimsoll::libtorch_cuda {

class ShadowHeap {
 public:
  explicit ShadowHeap(const HeapSettings& settings = {}) noexcept;
  void clear(const HeapSettings& settings) noexcept;

  // Seeding from a snapshot. Add the segments in any order (for an expandable one, each mapped
  // range), and right after each segment its blocks in the order of their addresses.
  void add_segment(std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream,
                   HeapPool pool, bool is_expandable) noexcept;
  void add_block(std::uint64_t address, std::uint64_t size_bytes, std::uint64_t requested_bytes,
                 BlockState state) noexcept;

  // These apply an event of the allocator. They return the block's bytes, or 0 if the event does
  // not fit.
  std::uint64_t alloc(std::uint64_t address, std::uint64_t requested_bytes,
                      std::uint64_t stream) noexcept;
  std::uint64_t free_requested(std::uint64_t address) noexcept;
  std::uint64_t free_completed(std::uint64_t address) noexcept;
  // `action` is a plimsoll_segment_action. Returns false if the event does not fit.
  bool segment(std::uint8_t action, std::uint64_t address, std::uint64_t size_bytes,
               std::uint64_t stream, HeapPool pool) noexcept;
  // Corrects the size of this allocated block so that the sum agrees with the allocator's. The free
  // memory behind it grows or shrinks by the difference. Returns false if that is impossible.
  bool correct(std::uint64_t address, std::uint64_t size_bytes) noexcept;

  std::uint64_t allocated_bytes() const noexcept { return allocated_bytes_; }
  std::uint64_t active_bytes() const noexcept { return active_bytes_; }  // including pending ones
  std::uint64_t reserved_bytes() const noexcept { return reserved_bytes_; }
  std::uint64_t unexplained() const noexcept { return unexplained_; }  // events that did not fit
  HeapPool pool_of(std::uint64_t address) const noexcept;              // of the segment around it

  // In the order of addresses: f(address, size_bytes, stream, is_expandable)
  template <typename F>
  void for_each_segment(F&& f) const {
    for (const Range& range : ranges_) {
      f(range.address, range.end - range.address, range.stream, range.is_expandable);
    }
  }
  // In the order of addresses: f(address, size_bytes, requested_bytes, stream, pool, state)
  template <typename F>
  void for_each_block(F&& f) const {
    for (const Range& range : ranges_) {
      for (std::uint32_t at = find(range.address); at != kNone; at = blocks_[at].next) {
        const Block& block = blocks_[at];
        f(block.address, block.size_bytes, block.requested_bytes, range.stream, range.pool,
          block.state);
      }
    }
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  // Blocks of a range are linked in address order and cover it completely.
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t requested_bytes = 0;  // if inactive, that of its last allocation
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;  // if unused, the next unused one
    BlockState state = BlockState::kInactive;

    std::uint64_t end() const { return address + size_bytes; }
    bool is_free() const { return state == BlockState::kInactive; }
  };
  // A segment, or adjacent pages of an expandable one.
  struct Range {
    std::uint64_t address = 0;
    std::uint64_t end = 0;
    std::uint64_t stream = 0;
    HeapPool pool;
    bool is_expandable = false;
  };
  struct Slot {
    std::uint64_t address = 0;
    std::uint32_t block = kNone;
  };

  std::uint64_t rounded(std::uint64_t requested_bytes) const noexcept;
  bool is_split(const Range& range, std::uint64_t size_bytes,
                std::uint64_t remaining_bytes) const noexcept;

  bool add_range(const Range& range) noexcept;
  bool free_segment(std::uint64_t address, std::uint64_t size_bytes) noexcept;
  bool map(const Range& mapped) noexcept;
  bool unmap(std::uint64_t address, std::uint64_t size_bytes) noexcept;
  std::size_t range_after(std::uint64_t address) const noexcept;
  const Range* range_around(std::uint64_t address) const noexcept;
  std::uint32_t last_block(const Range& range) const noexcept;

  // Changes to blocks. Before a block is added, make_room() must have succeeded.
  bool make_room() noexcept;
  std::uint32_t add_after(std::uint32_t previous, std::uint32_t next, const Block& block) noexcept;
  void remove(std::uint32_t at) noexcept;
  void link(std::uint32_t previous, std::uint32_t next) noexcept;
  void cut_off(std::uint32_t at, std::uint64_t size_bytes) noexcept;
  void join_with_next(std::uint32_t at) noexcept;

  // The index of blocks by address: open addressing, no tombstones.
  std::size_t home(std::uint64_t address) const noexcept;
  std::uint32_t find(std::uint64_t address) const noexcept;
  void index(std::uint64_t address, std::uint32_t block) noexcept;
  void forget(std::uint64_t address) noexcept;

  std::uint64_t misfit() noexcept {
    ++unexplained_;
    return 0;
  }

  HeapSettings settings_;
  std::vector<Range> ranges_;  // by address
  std::vector<Block> blocks_;
  std::uint32_t unused_ = kNone;
  std::vector<Slot> slots_;       // a power of two, at most half of them taken
  std::uint32_t seeded_ = kNone;  // the last block of the segment being seeded
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t active_bytes_ = 0;
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t unexplained_ = 0;
};

}  // namespace plimsoll::libtorch_cuda
