// A miniature of PyTorch's CUDA caching allocator: rounding, small and large pools, best fit,
// splitting, merging, segments from the driver, release of unsplit segments before a failure, and a
// simple form of expandable segments. It makes a synthetic trace and its final segments agree to
// the byte. One device, deterministic addresses.
//
// Not modelled: private pools, garbage collection, max_split_size, unmapping of expandable
// segments.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "generator/event.h"

namespace generator {

inline constexpr uint64_t kMiB = 1 << 20;

enum class BlockState : uint8_t { kInactive, kAllocated, kPendingFree };

struct Segment;

struct Block {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  uint64_t requested_bytes = 0;  // stale in an inactive block, as in PyTorch
  BlockState state = BlockState::kInactive;
  Context context;
  Segment* segment = nullptr;
  Block* previous = nullptr;
  Block* next = nullptr;
};

enum class PoolKind : uint8_t { kSmall, kLarge };

struct Segment {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  uint64_t stream = 0;
  PoolKind pool = PoolKind::kLarge;
  Context context;
  Block* first = nullptr;
};

enum class SegmentStyle : uint8_t { kFixed, kExpandable };

struct AllocatorOptions {
  uint64_t device_bytes = 80ull << 30;    // total memory of the device
  uint64_t foreign_bytes = 600ull << 20;  // used by the driver's context and libraries
  SegmentStyle style = SegmentStyle::kFixed;
};

class CachingAllocator {
 public:
  CachingAllocator(const AllocatorOptions& options, EventSink& sink);

  /// Returns null if the device is full, after an out-of-memory event.
  Block* allocate(uint64_t requested_bytes, uint64_t stream, const Context& context);
  /// Requests a free, as the program does.
  void request_free(Block* block);
  /// Completes a free: the allocator may use the block again.
  void complete_free(Block* block);

  void set_time_us(int64_t time_us) { time_us_ = time_us; }
  uint64_t device_free_bytes() const;

  const std::map<uint64_t, Segment>& segments() const { return segments_; }
  SegmentStyle style() const { return options_.style; }

 private:
  struct ByFit {
    bool operator()(const Block* a, const Block* b) const;
  };
  using FreeBlocks = std::set<Block*, ByFit>;

  FreeBlocks& free_blocks(PoolKind pool) { return free_blocks_[static_cast<size_t>(pool)]; }
  Block* take_best_fit(PoolKind pool, uint64_t size_bytes, uint64_t stream);
  Block* take_new_segment(PoolKind pool, uint64_t size_bytes, uint64_t stream,
                          const Context& context);
  Block* take_expanded(PoolKind pool, uint64_t size_bytes, uint64_t stream, const Context& context);
  void release_cached_segments(const Context& context);
  void split(Block* block, uint64_t size_bytes);
  void absorb_next(Block* block);
  Block* new_block();
  void delete_block(Block* block);
  void emit(Action action, uint64_t address, uint64_t size_bytes, uint64_t stream,
            const Context& context);

  AllocatorOptions options_;
  EventSink& sink_;
  int64_t time_us_ = 0;
  uint64_t reserved_bytes_ = 0;
  uint64_t next_segment_address_ = 0x7f0000000000;
  std::map<uint64_t, Segment> segments_;  // by address; a Segment never moves
  FreeBlocks free_blocks_[2];
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> unused_blocks_;
};

}  // namespace generator
