// A reference caching allocator, written from torch's documentation and source: plain vectors and
// linear searches. It chooses its own addresses and reports each event; its block lists are the
// expected contents of the shadow heap. It shares no code with ShadowHeap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "heap_settings.h"

namespace plimsoll::libtorch_cuda {

inline constexpr std::uint64_t kMiB = 1 << 20;

struct ModelBlock {
  std::uint64_t address = 0, size = 0, requested = 0;
  BlockState state = BlockState::kInactive;
};
struct ModelSegment {  // if expandable, its mapped pages are [address, address + mapped)
  std::uint64_t address = 0, stream = 0;
  bool is_small = false, is_expandable = false;
  HeapPool pool;
  std::vector<ModelBlock> blocks;  // cover it without gaps
};
struct ModelEvent {
  enum class What : std::uint8_t { kAlloc, kFreeRequested, kFreeCompleted, kSegment };
  What what{};
  std::uint64_t address = 0, bytes = 0, stream = 0;
  std::uint8_t action = 0;
  HeapPool pool;
};

class ModelAllocator {
 public:
  ModelAllocator(HeapSettings settings, std::function<void(const ModelEvent&)> emit)
      : settings_(settings), emit_(std::move(emit)) {}

  std::uint64_t alloc(std::uint64_t requested, std::uint64_t stream, HeapPool pool = {}) {
    const std::uint64_t size = round(requested);
    Place place = best(size, stream, pool);
    if (place == kNowhere) place = grow(size, stream, pool);
    ModelSegment& segment = segments[place.segment];
    ModelBlock& block = segment.blocks[place.block];
    const std::uint64_t rest = block.size - size;
    const bool splits = segment.is_small || settings_.has_expandable_segments
                            ? rest >= 512
                            : size < settings_.max_split_bytes && rest > kMiB;
    const std::uint64_t address = block.address;
    block.state = BlockState::kAllocated;
    block.requested = requested;
    if (splits) {
      block.size = size;
      segment.blocks.insert(segment.blocks.begin() + static_cast<std::ptrdiff_t>(place.block) + 1,
                            {address + size, rest, 0, BlockState::kInactive});
    }
    emit_({ModelEvent::What::kAlloc, address, requested, stream, 0, pool});
    return address;
  }

  void request_free(std::uint64_t address) {
    find(address).state = BlockState::kPendingFree;
    emit_({ModelEvent::What::kFreeRequested, address, find(address).requested, 0, 0, {}});
  }
  void complete_free(std::uint64_t address) {
    emit_({ModelEvent::What::kFreeCompleted, address, find(address).requested, 0, 0, {}});
    find(address).state = BlockState::kInactive;
    for (ModelSegment& segment : segments) join(segment);
  }

  // torch.cuda.empty_cache(): whole segments, and of expandable ones the whole free pages.
  void empty_cache() {
    for (std::size_t i = segments.size(); i-- > 0;) {
      ModelSegment& segment = segments[i];
      if (segment.is_expandable) {
        release_pages(i);
      } else if (segment.blocks.size() == 1 && segment.blocks[0].state == BlockState::kInactive) {
        emit_({ModelEvent::What::kSegment, segment.address, segment.blocks[0].size, segment.stream,
               1, segment.pool});
        segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  std::vector<ModelSegment> segments;  // for an expandable segment, each run of mapped pages

 private:
  static constexpr std::uint64_t kReservation = 20 * kMiB << 16;

  struct Place {
    std::size_t segment, block;
    bool operator==(const Place&) const = default;
  };
  static constexpr Place kNowhere{SIZE_MAX, 0};

  std::uint64_t round(std::uint64_t size) const {
    if (size < 512) return 512;
    std::uint32_t entry = 0;
    while (entry < 15 && (2 * kMiB << entry) <= size) ++entry;
    const std::uint64_t divisions = settings_.roundup_power2_divisions[entry];
    std::uint64_t power = 512;
    while (power * 2 <= size) power *= 2;
    if (divisions > 1 && size > 512 * divisions) {
      std::uint64_t rounded = power;
      while (rounded < size) rounded += power / divisions;
      return rounded;
    }
    return (size + 511) / 512 * 512;
  }
  Place best(std::uint64_t size, std::uint64_t stream, HeapPool pool) const {
    Place found = kNowhere;
    std::uint64_t smallest = UINT64_MAX;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const ModelSegment& segment = segments[s];
      if (segment.stream != stream || segment.is_small != (size <= kMiB) || segment.pool != pool) {
        continue;
      }
      for (std::size_t b = 0; b < segment.blocks.size(); ++b) {
        const ModelBlock& block = segment.blocks[b];
        if (block.state != BlockState::kInactive || block.size < size || block.size >= smallest) {
          continue;
        }
        if (size < settings_.max_split_bytes && block.size >= settings_.max_split_bytes) continue;
        found = {s, b};
        smallest = block.size;
      }
    }
    return found;
  }
  Place grow(std::uint64_t size, std::uint64_t stream, HeapPool pool) {
    const bool is_small = size <= kMiB;
    if (settings_.has_expandable_segments) return expand(size, stream, pool);
    const std::uint64_t bytes = is_small           ? 2 * kMiB
                                : size < 10 * kMiB ? settings_.large_segment_bytes
                                                   : (size + 2 * kMiB - 1) / (2 * kMiB) * 2 * kMiB;
    segments.push_back({next_, stream, is_small, false, pool, {{next_, bytes, 0, {}}}});
    segments.back().blocks[0].state = BlockState::kInactive;
    emit_({ModelEvent::What::kSegment, next_, bytes, stream, 0, pool});
    next_ += bytes;  // the next segment may be adjacent: nothing merges across that border
    return {segments.size() - 1, 0};
  }
  // Maps the missing pages at the end of the stream's last run, with one event per page.
  Place expand(std::uint64_t size, std::uint64_t stream, HeapPool pool) {
    const bool is_small = size <= kMiB;
    const std::uint64_t page = is_small ? 2 * kMiB : 20 * kMiB;
    ModelSegment* last = nullptr;
    for (ModelSegment& segment : segments) {
      if (segment.stream != stream || segment.is_small != is_small || segment.pool != pool)
        continue;
      if (last == nullptr || segment.address > last->address) last = &segment;
    }
    if (last == nullptr) {
      next_ = (next_ / kReservation + 1) * kReservation;
      segments.push_back({next_, stream, is_small, true, pool, {}});
      last = &segments.back();
    }
    const auto tail = [&] {
      if (last->blocks.empty() || last->blocks.back().state != BlockState::kInactive) {
        return std::uint64_t{0};
      }
      return last->blocks.back().size;
    };
    while (tail() < size) {
      const std::uint64_t end = last->blocks.empty()
                                    ? last->address
                                    : last->blocks.back().address + last->blocks.back().size;
      last->blocks.push_back({end, page, 0, BlockState::kInactive});
      emit_({ModelEvent::What::kSegment, end, page, stream, 2, pool});
      join(*last);
    }
    return {static_cast<std::size_t>(last - segments.data()), last->blocks.size() - 1};
  }
  static void join(ModelSegment& segment) {
    for (std::size_t b = 0; b + 1 < segment.blocks.size();) {
      const bool both = segment.blocks[b].state == BlockState::kInactive &&
                        segment.blocks[b + 1].state == BlockState::kInactive;
      if (!both) {
        ++b;
        continue;
      }
      segment.blocks[b].size += segment.blocks[b + 1].size;
      segment.blocks.erase(segment.blocks.begin() + static_cast<std::ptrdiff_t>(b) + 1);
    }
  }
  // Unmaps the complete pages of the first free block that has any, which splits the run.
  void release_pages(std::size_t at) {
    ModelSegment& segment = segments[at];
    const std::uint64_t page = segment.is_small ? 2 * kMiB : 20 * kMiB;
    for (std::size_t b = 0; b < segment.blocks.size(); ++b) {
      const ModelBlock block = segment.blocks[b];
      const std::uint64_t begin = (block.address + page - 1) / page * page;
      const std::uint64_t end = (block.address + block.size) / page * page;
      if (block.state != BlockState::kInactive || begin >= end) continue;
      ModelSegment right{end, segment.stream, segment.is_small, true, segment.pool, {}};
      if (block.address + block.size > end) {
        right.blocks.push_back({end, block.address + block.size - end, 0, BlockState::kInactive});
      }
      right.blocks.insert(right.blocks.end(),
                          segment.blocks.begin() + static_cast<std::ptrdiff_t>(b) + 1,
                          segment.blocks.end());
      segment.blocks.resize(b);
      if (begin > block.address) {
        segment.blocks.push_back({block.address, begin - block.address, 0, BlockState::kInactive});
      }
      const ModelEvent event{
          ModelEvent::What::kSegment, begin, end - begin, segment.stream, 3, segment.pool};
      const bool is_empty = segment.blocks.empty();
      if (!right.blocks.empty()) segments.push_back(right);
      if (is_empty) segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(at));
      emit_(event);
      return;
    }
  }
  ModelBlock& find(std::uint64_t address) {
    for (ModelSegment& segment : segments) {
      for (ModelBlock& block : segment.blocks) {
        if (block.address == address) return block;
      }
    }
    std::abort();
  }

  HeapSettings settings_;
  std::function<void(const ModelEvent&)> emit_;
  std::uint64_t next_ = 100 * kReservation;
};

}  // namespace plimsoll::libtorch_cuda
