// The memory limit that a container, a batch system or systemd has put on this process: cgroup v2,
// or v1. A limit holds for a group and all below it, so the group told here is the one, of ours and
// those above it, that leaves the least room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll::probes {

// Pressure stall information: the share of the last seconds in which somebody (all) waited for
// memory, in percent, and the sum of it.
struct MemoryPressure {
  double some_percent_10s = 0;
  double some_percent_60s = 0;
  double full_percent_10s = 0;
  double full_percent_60s = 0;
  std::uint64_t some_total_us = 0;
  std::uint64_t full_total_us = 0;
};

struct CgroupMemory {
  std::string path;  // of the group, from the root of the hierarchy; "/": the root
  int version = 2;
  std::optional<std::uint64_t> limit_bytes;  // absent: none
  std::optional<std::uint64_t> current_bytes;
  // Of which: file cache that the kernel takes back when it needs it, as docker and Kubernetes
  // leave it out of what they show as used.
  std::optional<std::uint64_t> inactive_file_bytes;
  std::optional<std::uint64_t> oom_kills;
  std::optional<std::uint64_t> limit_hits;  // how often the limit had to be enforced
  std::optional<MemoryPressure> pressure;

  // current without the cache.
  std::optional<std::uint64_t> used_bytes() const;
};

// The group that limits process `pid` ("self"); without any limit, its own group. nullopt where
// there is no memory controller.
std::optional<CgroupMemory> read_cgroup_memory(const std::string& root = {},
                                               const std::string& pid = "self");

// <root>/proc/pressure/memory, or a group's memory.pressure.
std::optional<MemoryPressure> read_memory_pressure(const std::string& path);

// The folder of the group that limits this process and its limit; for those who look often.
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
