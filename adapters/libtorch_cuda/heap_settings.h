// The settings of torch's caching allocator that the shadow heap needs, independent of torch.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

namespace plimsoll::libtorch_cuda {

struct HeapSettings {
  static constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
  std::uint64_t max_split_bytes = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t large_segment_bytes = 20 * kMiB;
  // Number of steps between two powers of two; entry i is for sizes from 2^i MiB. 0: none.
  std::array<std::uint32_t, 16> roundup_power2_divisions{};
  bool has_expandable_segments = false;
};

// torch's MempoolId_t. {0, 0}: the default pools, and any pool if torch (< 2.8) does not report it.
struct HeapPool {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  friend bool operator==(const HeapPool&, const HeapPool&) = default;
};

enum class BlockState : std::uint8_t { kAllocated, kPendingFree, kInactive };

// large_segment_size_mb, which torch stores only in the text of PYTORCH_CUDA_ALLOC_CONF.
constexpr std::uint64_t large_segment_bytes_of(std::string_view settings) {
  constexpr std::string_view kKey = "large_segment_size_mb:";
  const std::size_t at = settings.find(kKey);
  std::uint64_t value_mib = 0;
  if (at != std::string_view::npos) {
    for (const char c : settings.substr(at + kKey.size())) {
      if (c < '0' || c > '9' || value_mib > 1'000'000) break;
      value_mib = value_mib * 10 + static_cast<std::uint64_t>(c - '0');
    }
  }
  return (value_mib == 0 ? 20 : value_mib) * HeapSettings::kMiB;
}

}  // namespace plimsoll::libtorch_cuda
