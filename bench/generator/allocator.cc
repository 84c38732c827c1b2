#include "generator/allocator.h"

#include <algorithm>
#include <tuple>

namespace generator {
namespace {

constexpr uint64_t kMinBlockBytes = 512;
constexpr uint64_t kSmallLimitBytes = kMiB;
constexpr uint64_t kSmallSegmentBytes = 2 * kMiB;
constexpr uint64_t kLargeSegmentBytes = 20 * kMiB;
constexpr uint64_t kMinHugeBytes = 10 * kMiB;
constexpr uint64_t kRoundHugeBytes = 2 * kMiB;
constexpr uint64_t kReservationBytes = 128ull << 30;  // address space of one expandable segment

uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

uint64_t segment_size(uint64_t size_bytes) {
  if (size_bytes <= kSmallLimitBytes) return kSmallSegmentBytes;
  if (size_bytes < kMinHugeBytes) return kLargeSegmentBytes;
  return round_up(size_bytes, kRoundHugeBytes);
}

}  // namespace

bool CachingAllocator::ByFit::operator()(const Block* a, const Block* b) const {
  return std::tuple(a->segment->stream, a->size_bytes, a->address) <
         std::tuple(b->segment->stream, b->size_bytes, b->address);
}

CachingAllocator::CachingAllocator(const AllocatorOptions& options, EventSink& sink)
    : options_(options), sink_(sink) {}

uint64_t CachingAllocator::device_free_bytes() const {
  return options_.device_bytes - options_.foreign_bytes - reserved_bytes_;
}

void CachingAllocator::emit(Action action, uint64_t address, uint64_t size_bytes, uint64_t stream,
                            const Context& context) {
  sink_.on_event(Event{action, address, size_bytes, stream, time_us_, context});
}

Block* CachingAllocator::new_block() {
  if (unused_blocks_.empty()) {
    blocks_.push_back(std::make_unique<Block>());
    return blocks_.back().get();
  }
  Block* block = unused_blocks_.back();
  unused_blocks_.pop_back();
  *block = Block{};
  return block;
}

void CachingAllocator::delete_block(Block* block) { unused_blocks_.push_back(block); }

Block* CachingAllocator::allocate(uint64_t requested_bytes, uint64_t stream,
                                  const Context& context) {
  const uint64_t size = std::max(kMinBlockBytes, round_up(requested_bytes, kMinBlockBytes));
  const PoolKind pool = size <= kSmallLimitBytes ? PoolKind::kSmall : PoolKind::kLarge;
  Block* block = take_best_fit(pool, size, stream);
  if (block == nullptr && options_.style == SegmentStyle::kExpandable) {
    block = take_expanded(pool, size, stream, context);
  } else if (block == nullptr) {
    block = take_new_segment(pool, size, stream, context);
    if (block == nullptr) {
      release_cached_segments(context);
      block = take_new_segment(pool, size, stream, context);
    }
  }
  if (block == nullptr) {
    emit(Action::kOutOfMemory, device_free_bytes(), size, stream, context);
    return nullptr;
  }
  const uint64_t remaining = block->size_bytes - size;
  const bool is_worth_it = pool == PoolKind::kSmall || options_.style == SegmentStyle::kExpandable
                               ? remaining >= kMinBlockBytes
                               : remaining > kSmallLimitBytes;
  if (is_worth_it) split(block, size);
  block->state = BlockState::kAllocated;
  block->requested_bytes = requested_bytes;
  block->context = context;
  emit(Action::kAlloc, block->address, requested_bytes, stream, context);
  return block;
}

Block* CachingAllocator::take_best_fit(PoolKind pool, uint64_t size_bytes, uint64_t stream) {
  Segment key_segment;
  key_segment.stream = stream;
  Block key;
  key.segment = &key_segment;
  key.size_bytes = size_bytes;
  FreeBlocks& candidates = free_blocks(pool);
  const auto best = candidates.lower_bound(&key);
  if (best == candidates.end() || (*best)->segment->stream != stream) return nullptr;
  Block* block = *best;
  candidates.erase(best);
  return block;
}

Block* CachingAllocator::take_new_segment(PoolKind pool, uint64_t size_bytes, uint64_t stream,
                                          const Context& context) {
  const uint64_t segment_bytes = segment_size(size_bytes);
  if (segment_bytes > device_free_bytes()) return nullptr;
  const uint64_t address = next_segment_address_;
  next_segment_address_ += round_up(segment_bytes, kRoundHugeBytes);
  reserved_bytes_ += segment_bytes;
  Segment& segment = segments_[address];
  segment = Segment{address, segment_bytes, stream, pool, context, new_block()};
  segment.first->address = address;
  segment.first->size_bytes = segment_bytes;
  segment.first->segment = &segment;
  emit(Action::kSegmentAlloc, address, segment_bytes, stream, context);
  return segment.first;
}

// One reservation for each pool and stream. It grows only at its end.
Block* CachingAllocator::take_expanded(PoolKind pool, uint64_t size_bytes, uint64_t stream,
                                       const Context& context) {
  Segment* segment = nullptr;
  for (auto& [address, candidate] : segments_) {
    if (candidate.pool == pool && candidate.stream == stream) segment = &candidate;
  }
  Block* last = segment != nullptr ? segment->first : nullptr;
  while (last != nullptr && last->next != nullptr) last = last->next;
  const bool is_last_free = last != nullptr && last->state == BlockState::kInactive;
  const uint64_t page = pool == PoolKind::kSmall ? kSmallSegmentBytes : kLargeSegmentBytes;
  const uint64_t mapped = round_up(size_bytes - (is_last_free ? last->size_bytes : 0), page);
  if (mapped > device_free_bytes()) return nullptr;
  if (segment == nullptr) {
    segment = &segments_[next_segment_address_];
    *segment = Segment{next_segment_address_, 0, stream, pool, context, nullptr};
    next_segment_address_ += kReservationBytes;
  }
  const uint64_t map_address = segment->address + segment->size_bytes;
  reserved_bytes_ += mapped;
  segment->size_bytes += mapped;
  emit(Action::kSegmentMap, map_address, mapped, stream, context);
  if (is_last_free) {
    free_blocks(pool).erase(last);
    last->size_bytes += mapped;
    return last;
  }
  Block* block = new_block();
  block->address = map_address;
  block->size_bytes = mapped;
  block->segment = segment;
  block->previous = last;
  (last != nullptr ? last->next : segment->first) = block;
  return block;
}

void CachingAllocator::release_cached_segments(const Context& context) {
  for (const PoolKind pool : {PoolKind::kLarge, PoolKind::kSmall}) {
    FreeBlocks& candidates = free_blocks(pool);
    for (auto it = candidates.begin(); it != candidates.end();) {
      Block* block = *it;
      if (block->previous != nullptr || block->next != nullptr) {
        ++it;
        continue;
      }
      it = candidates.erase(it);
      reserved_bytes_ -= block->size_bytes;
      emit(Action::kSegmentFree, block->address, block->size_bytes, block->segment->stream,
           context);
      segments_.erase(block->address);
      delete_block(block);
    }
  }
}

void CachingAllocator::split(Block* block, uint64_t size_bytes) {
  Block* rest = new_block();
  rest->address = block->address + size_bytes;
  rest->size_bytes = block->size_bytes - size_bytes;
  rest->segment = block->segment;
  rest->previous = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  block->size_bytes = size_bytes;
  free_blocks(block->segment->pool).insert(rest);
}

void CachingAllocator::request_free(Block* block) {
  block->state = BlockState::kPendingFree;
  emit(Action::kFreeRequested, block->address, block->requested_bytes, block->segment->stream,
       block->context);
}

void CachingAllocator::complete_free(Block* block) {
  emit(Action::kFreeCompleted, block->address, block->requested_bytes, block->segment->stream,
       block->context);
  block->state = BlockState::kInactive;
  block->context = Context{};
  FreeBlocks& pool = free_blocks(block->segment->pool);
  if (Block* next = block->next; next != nullptr && next->state == BlockState::kInactive) {
    pool.erase(next);
    absorb_next(block);
  }
  if (Block* previous = block->previous;
      previous != nullptr && previous->state == BlockState::kInactive) {
    pool.erase(previous);
    absorb_next(previous);
    block = previous;
  }
  pool.insert(block);
}

void CachingAllocator::absorb_next(Block* block) {
  Block* next = block->next;
  block->size_bytes += next->size_bytes;
  block->next = next->next;
  if (block->next != nullptr) block->next->previous = block;
  delete_block(next);
}

}  // namespace generator
