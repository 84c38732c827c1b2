// The memory of the machine this process runs on, and a quick look at it for those who look at
// every batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "plimsoll/memory_sample.h"
#include "probes/cgroup_memory.h"

namespace plimsoll::probes {

// /dev/shm, through which DataLoader workers hand over their batches.
struct SharedMemoryFolder {
  std::uint64_t size_bytes = 0;
  std::uint64_t used_bytes = 0;
};

struct MachineMemory {
  std::optional<std::uint64_t> total_bytes;
  std::optional<std::uint64_t> available_bytes;  // without swapping, as the kernel guesses
  std::optional<std::uint64_t> swap_total_bytes;
  std::optional<std::uint64_t> swap_free_bytes;
  std::optional<SharedMemoryFolder> shared_memory;
  std::optional<MemoryPressure> pressure;
};
MachineMemory read_machine_memory(const std::string& root = {});

// This process's resident set, and the memory that it may fill: that of its cgroup where it has a
// limit below the machine's, else the machine's. Keeps what changes rarely (which group, how much
// file cache there is in it) for a second. For one thread; may be forked.
class HostProbe {
 public:
  explicit HostProbe(std::string root = {}) : root_(std::move(root)) {}
  HostMemory read();

 private:
  void look_at_group(std::int64_t now_ns);

  std::string root_;
  std::int64_t looked_ns_ = 0;        // of CLOCK_MONOTONIC; 0: never
  std::optional<CgroupLimit> group_;  // only one with a limit
  std::uint64_t group_cache_bytes_ = 0;
  std::optional<std::uint64_t> machine_total_bytes_;
};

// HostProbe::read of this thread's own probe. Any thread, no lock; about 15 us, most of it the
// kernel's.
HostMemory read_host_memory();

}  // namespace plimsoll::probes
