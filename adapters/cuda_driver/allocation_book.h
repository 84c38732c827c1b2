// Finds a live CUDA allocation by its address, which is all that CUDA's free functions receive.
// Never locked while the driver is called.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reporting.h"

namespace plimsoll::cuda_driver {

class AllocationBook {
 public:
  // Returns false if memory runs out.
  bool add(std::uint64_t address, const Allocation& allocation) noexcept;
  // Removes the allocation at an address. Returns false if the allocation was not recorded.
  bool take(std::uint64_t address, Allocation& allocation) noexcept;
  // Removes and returns every allocation that ends when a device is reset.
  std::vector<std::pair<std::uint64_t, Allocation>> take_all_of(int ordinal);

  // Called around fork().
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
