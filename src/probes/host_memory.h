// The memory of the machine, and a cheap reading of it for code that polls on every batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "plimsoll/memory_sample.h"
#include "probes/cgroup_memory.h"

namespace plimsoll::probes {

// /dev/shm, through which DataLoader workers pass their batches.
struct SharedMemoryFolder {
  std::uint64_t size_bytes = 0;
  std::uint64_t used_bytes = 0;
};

struct MachineMemory {
  std::optional<std::uint64_t> total_bytes;
  std::optional<std::uint64_t> available_bytes;  // without swapping, as estimated by the kernel
  std::optional<std::uint64_t> swap_total_bytes;
  std::optional<std::uint64_t> swap_free_bytes;
  std::optional<SharedMemoryFolder> shared_memory;
  std::optional<MemoryPressure> pressure;
};
MachineMemory read_machine_memory(const std::string& root = {});

// Reads this process's resident set and the memory available to it: that of its cgroup if the
// cgroup has a limit below the machine's memory, else the machine's. Caches values that rarely
// change (the group and its file cache) for a second. For one thread; safe across fork().
class HostProbe {
 public:
  explicit HostProbe(std::string root = {}) : root_(std::move(root)) {}
  HostMemory read();

 private:
  void read_group(std::int64_t now_ns);

  std::string root_;
  std::int64_t group_read_ns_ = 0;    // of CLOCK_MONOTONIC; 0: never
  std::optional<CgroupLimit> group_;  // only if it has a limit
  std::uint64_t group_cache_bytes_ = 0;
  std::optional<std::uint64_t> machine_total_bytes_;
};

// Calls HostProbe::read on a probe of this thread. Any thread may call it; takes no lock, and about
// 15 us, mostly in the kernel.
HostMemory read_host_memory();

// Freed memory that the C library has not returned; nullopt if it is older than glibc 2.33, or not
// glibc. Walks its free blocks: up to a millisecond, in which other threads may wait for it.
std::optional<std::uint64_t> read_free_heap();

}  // namespace plimsoll::probes
