// The rules by which torch's CUDA caching allocator sizes its blocks and segments, from
// c10/cuda/CUDACachingAllocator.cpp. Uses only the standard library, because the CUDA adapter,
// which is compiled on the user's machine, includes it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll::caching_allocator {

// Every block size is a multiple of this.
inline constexpr std::uint64_t kMinBlockBytes = 512;
// Requests up to this are served from small segments, all others from large ones.
inline constexpr std::uint64_t kLargestSmallRequest = std::uint64_t{1} << 20;
// Small segments have this size, large ones at least 10 MiB.
inline constexpr std::uint64_t kSmallSegmentBytes = std::uint64_t{2} << 20;
// Expandable segments consist of pages: those for small requests have kSmallSegmentBytes, all
// others this size.
inline constexpr std::uint64_t kLargePageBytes = std::uint64_t{20} << 20;

constexpr bool is_small_request(std::uint64_t requested_bytes) {
  return requested_bytes <= kLargestSmallRequest;
}

// Whether a segment of this size serves small requests. Not for expandable segments.
constexpr bool is_small_segment(std::uint64_t size_bytes) {
  return size_bytes <= kSmallSegmentBytes;
}

// The page size of an expandable segment for small or for large requests.
constexpr std::uint64_t page_bytes(bool is_small) {
  return is_small ? kSmallSegmentBytes : kLargePageBytes;
}

// The size of the block for a request. `divisions` are those of roundup_power2_divisions: entry i
// is for requests from 2^i MiB to below twice that. The first entry also serves smaller requests,
// the last one larger requests.
constexpr std::uint64_t block_bytes(std::uint64_t requested_bytes,
                                    std::span<const std::uint32_t> divisions = {}) {
  if (requested_bytes < kMinBlockBytes) return kMinBlockBytes;
  if (!divisions.empty()) {
    constexpr unsigned kFirstLog = 20;  // of 1 MiB
    const unsigned log = static_cast<unsigned>(std::bit_width(requested_bytes)) - 1;
    const std::size_t entry =
        std::min<std::size_t>(log > kFirstLog ? log - kFirstLog : 0, divisions.size() - 1);
    const std::uint32_t count = divisions[entry];
    if (count > 1 && requested_bytes > kMinBlockBytes * count) {
      // Round up to the next of `count` equal steps between two powers of two.
      if (std::has_single_bit(requested_bytes)) return requested_bytes;
      const std::uint64_t power = std::bit_floor(requested_bytes);
      const std::uint64_t step = power >> (std::bit_width(count) - 1);
      if (step == 0) return power << 1;
      return (requested_bytes + step - 1) & ~(step - 1);
    }
  }
  const bool has_rest = requested_bytes % kMinBlockBytes != 0;
  return (requested_bytes / kMinBlockBytes + (has_rest ? 1 : 0)) * kMinBlockBytes;
}

}  // namespace plimsoll::caching_allocator
