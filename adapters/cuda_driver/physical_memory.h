// Physical memory of cuMemCreate(): it is live while one of its handles is unreleased or one of its
// mappings exists. It has no address of its own, so it is reported under a number that cannot be an
// address: the highest bit, and a count.
//
// A release is recorded before the driver is called, and undone if the driver refuses: the driver
// may give the handle or address to another thread immediately.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "reporting.h"

namespace plimsoll::cuda_driver {

class PhysicalMemory {
 public:
  struct Memory {
    Allocation allocation;
    std::uint64_t number = 0;
    std::uint64_t references = 0;  // of all its handles
    std::uint64_t mappings = 0;
  };
  using MemoryRef = std::shared_ptr<Memory>;
  struct Mapping {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    MemoryRef memory;
  };

  // These may throw std::bad_alloc.
  void created(std::uint64_t handle, const Allocation& allocation);
  void retained(std::uint64_t handle, std::uint64_t address);
  void mapped(std::uint64_t handle, std::uint64_t address, std::uint64_t size_bytes);

  // Returns null for a handle whose creation was not seen, such as that of another process's
  // memory.
  MemoryRef release(std::uint64_t handle);
  void undo_release(std::uint64_t handle, const MemoryRef& memory);
  std::vector<Mapping> unmap(std::uint64_t address, std::uint64_t size_bytes);
  void undo_unmap(const std::vector<Mapping>& mappings);

  // Called around fork().
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }
  void forget() noexcept;

 private:
  struct Handle {
    MemoryRef memory;
    std::uint64_t references = 0;
  };
  static void drop(std::uint64_t& count, const Memory& memory) noexcept;
  static void raise(std::uint64_t& count, const Memory& memory) noexcept;

  std::mutex mutex_;
  std::uint64_t last_number_ = std::uint64_t{1} << 63;
  std::unordered_map<std::uint64_t, Handle> handles_;
  std::map<std::uint64_t, Mapping> mappings_;  // by address
};

PhysicalMemory& physical_memory() noexcept;

}  // namespace plimsoll::cuda_driver
