// What of CUDA's memory lives, by address: CUDA's frees tell an address alone. Never locked while
// the driver is called.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "telling.h"

namespace plimsoll::cuda_driver {

class AllocationBook {
 public:
  // False: there is no memory for it.
  bool add(std::uint64_t address, const Allocation& allocation) noexcept;
  // False: nobody saw it being allocated.
  bool take(std::uint64_t address, Allocation& allocation) noexcept;
  // All that ends when a device is reset.
  std::vector<std::pair<std::uint64_t, Allocation>> take_all_of(int ordinal);

  // Around fork.
  void lock() noexcept;
  void unlock() noexcept;
  void forget() noexcept;  // in the child, whose other threads are gone

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::uint64_t, Allocation> rows;
  };
  static constexpr std::size_t kShards = 16;
  Shard& shard_of(std::uint64_t address) {
    return shards_[(address * 0x9E37'79B9'7F4A'7C15u) >> 60];
  }

  std::array<Shard, kShards> shards_;
};

AllocationBook& allocation_book() noexcept;

}  // namespace plimsoll::cuda_driver
