// A caching allocator of one device in host memory, with the parts of torch's behavior that the
// tests need. Slow and obvious; shares no code with the shadow heap.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace fake {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

struct Block {
  std::uint64_t size = 0;
  std::uint64_t requested = 0;
  std::uint64_t segment = 0;  // its address
  bool is_allocated = false;
  bool is_active = false;
  bool is_used_elsewhere = false;  // record_stream()
};
struct Segment {
  std::uint64_t size = 0;
  std::uint64_t stream = 0;
  bool is_small = false;
};

enum class What : std::uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree
};
using Emit =
    std::function<void(What, std::uint64_t address, std::uint64_t size, std::uint64_t stream)>;
enum class Gauge : std::uint8_t { kAllocated, kReserved };
using Move = std::function<void(Gauge, std::uint64_t value)>;

class Heap {
 public:
  Heap(Emit emit, Move move) : emit_(std::move(emit)), move_(std::move(move)) {
    void* room = mmap(nullptr, 65536 * kMiB, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) std::abort();
    next_ = (reinterpret_cast<std::uintptr_t>(room) / (2 * kMiB) + 1) * 2 * kMiB;
  }

  std::uint64_t allocated = 0, reserved = 0, limit = 1024 * kMiB;
  std::uint64_t extra = 0;  // excess bytes of the next block
  std::map<std::uint64_t, Block> blocks;
  std::map<std::uint64_t, Segment> segments;

  static std::uint64_t rounded(std::uint64_t size) {
    return size < 512 ? 512 : (size + 511) / 512 * 512;
  }

  // The size requested from the driver for a block of this size.
  static std::uint64_t segment_bytes(std::uint64_t size) {
    if (size <= kMiB) return 2 * kMiB;
    return size < 10 * kMiB ? 20 * kMiB : (size + 2 * kMiB - 1) / (2 * kMiB) * 2 * kMiB;
  }

  // Returns 0 if memory runs out.
  std::uint64_t alloc(std::uint64_t requested, std::uint64_t stream) {
    const std::uint64_t size = rounded(requested);
    std::uint64_t at = best_fit(size, stream);
    if (at == 0) at = grow(size, stream);
    if (at == 0) {
      empty_cache();
      at = grow(size, stream);
    }
    if (at == 0) return 0;
    Block& block = blocks[at];
    const std::uint64_t taken = size + extra;
    extra = 0;
    const std::uint64_t rest = block.size - taken;
    if (segments[block.segment].is_small ? rest >= 512 : rest > kMiB) {
      blocks[at + taken] = {.size = rest, .segment = block.segment};
      block.size = taken;
    }
    block.is_allocated = block.is_active = true;
    block.is_used_elsewhere = false;
    block.requested = requested;
    allocated += block.size;
    emit_(What::kAlloc, at, requested, stream);
    move_(Gauge::kAllocated, allocated);
    return at;
  }

  void free(std::uint64_t at) {
    Block& block = blocks.at(at);
    block.is_allocated = false;
    allocated -= block.size;
    move_(Gauge::kAllocated, allocated);
    emit_(What::kFreeRequested, at, block.requested, segments[block.segment].stream);
    if (!block.is_used_elsewhere) complete(at);
  }

  void free_all() {
    std::vector<std::uint64_t> allocated_ones;
    for (const auto& [at, block] : blocks) {
      if (block.is_allocated) allocated_ones.push_back(at);
    }
    for (const std::uint64_t at : allocated_ones) free(at);
  }

  // The other streams have finished.
  void complete_all() {
    for (auto entry = blocks.begin(); entry != blocks.end();) {
      const std::uint64_t at = entry->first;
      const bool is_pending = entry->second.is_active && !entry->second.is_allocated;
      if (is_pending) complete(at);
      entry = blocks.upper_bound(at);
    }
  }

  void empty_cache() {
    complete_all();
    for (auto entry = segments.begin(); entry != segments.end();) {
      const auto [at, segment] = *entry;
      const auto block = blocks.find(at);
      const bool is_free = !block->second.is_active && block->second.size == segment.size;
      ++entry;
      if (!is_free) continue;
      emit_(What::kSegmentFree, at, segment.size, segment.stream);
      reserved -= segment.size;
      move_(Gauge::kReserved, reserved);
      blocks.erase(at);
      segments.erase(at);
    }
  }

 private:
  std::uint64_t best_fit(std::uint64_t size, std::uint64_t stream) {
    std::uint64_t best = 0;
    for (const auto& [at, block] : blocks) {
      const Segment& segment = segments[block.segment];
      if (block.is_active || block.size < size + extra || segment.stream != stream ||
          segment.is_small != (size <= kMiB)) {
        continue;
      }
      if (best == 0 || block.size < blocks[best].size) best = at;
    }
    return best;
  }

  std::uint64_t grow(std::uint64_t size, std::uint64_t stream) {
    const std::uint64_t wanted = segment_bytes(size);
    if (reserved + wanted > limit) return 0;
    const std::uint64_t at = next_;
    next_ += wanted;
    segments[at] = {.size = wanted, .stream = stream, .is_small = size <= kMiB};
    blocks[at] = {.size = wanted, .segment = at};
    reserved += wanted;
    move_(Gauge::kReserved, reserved);
    emit_(What::kSegmentAlloc, at, wanted, stream);
    return at;
  }

  void complete(std::uint64_t at) {
    auto entry = blocks.find(at);
    entry->second.is_active = false;
    emit_(What::kFreeCompleted, at, entry->second.requested,
          segments[entry->second.segment].stream);
    auto next = std::next(entry);
    if (next != blocks.end() && can_join(*entry, *next)) {
      entry->second.size += next->second.size;
      blocks.erase(next);
    }
    if (entry == blocks.begin()) return;
    auto before = std::prev(entry);
    if (can_join(*before, *entry)) {
      before->second.size += entry->second.size;
      blocks.erase(entry);
    }
  }
  using Entry = std::pair<const std::uint64_t, Block>;
  static bool can_join(const Entry& left, const Entry& right) {
    return !left.second.is_active && !right.second.is_active &&
           left.second.segment == right.second.segment;
  }

  Emit emit_;
  Move move_;
  std::uint64_t next_ = 0;
};

}  // namespace fake
