// The memory limit that a container, a batch system or systemd sets for this process: cgroup v2, or
// v1. A limit applies to a group and all its descendants, so the reported group is the one, among
// this process's and its ancestors, that leaves the least free memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll::probes {

// Pressure stall information: the share of recent time in which some (or all) tasks waited for
// memory, in percent, and the total.
struct MemoryPressure {
  double some_percent_10s = 0;
  double some_percent_60s = 0;
  double full_percent_10s = 0;
  double full_percent_60s = 0;
  std::uint64_t some_total_us = 0;
  std::uint64_t full_total_us = 0;
};

struct CgroupMemory {
  std::string path;  // of the group, from the root of the hierarchy, which is "/"
  int version = 2;
  std::optional<std::uint64_t> limit_bytes;  // absent if there is no limit
  std::optional<std::uint64_t> current_bytes;
  // Part of the current bytes: file cache that the kernel reclaims when necessary. docker and
  // Kubernetes exclude it from used memory.
  std::optional<std::uint64_t> inactive_file_bytes;
  std::optional<std::uint64_t> oom_kills;
  std::optional<std::uint64_t> limit_hits;  // number of times the limit was enforced
  std::optional<MemoryPressure> pressure;

  // The current bytes without the reclaimable cache.
  std::optional<std::uint64_t> used_bytes() const;
};

// Returns the group that limits process `pid` ("self"), or its own group if there is no limit;
// nullopt without a memory controller.
std::optional<CgroupMemory> read_cgroup_memory(const std::string& root = {},
                                               const std::string& pid = "self");

// Reads <root>/proc/pressure/memory, or a group's memory.pressure.
std::optional<MemoryPressure> read_memory_pressure(const std::string& path);

// The folder of the group that limits this process, and its limit; for frequent polling.
struct CgroupLimit {
  std::string path;    // from the root of the hierarchy
  std::string folder;  // where its files are
  int version = 2;
  std::optional<std::uint64_t> limit_bytes;
};
std::optional<CgroupLimit> find_cgroup_limit(const std::string& root, const std::string& pid);
std::optional<std::uint64_t> read_cgroup_current(const CgroupLimit& group);
std::optional<std::uint64_t> read_cgroup_inactive_file(const CgroupLimit& group);

}  // namespace plimsoll::probes
