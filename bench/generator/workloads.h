// The presets: what a synthetic program does on a Machine, with which settings, and for how long.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generator/allocator.h"
#include "generator/machine.h"
#include "generator/snapshot_writer.h"

namespace generator {

struct Workload {
  std::string name;
  std::string about;  // one line for --help
  void (*run)(Machine& machine, uint64_t events);
  uint64_t default_events = 0;  // 0: the workload ends by itself
  size_t default_depth = 32;
  TorchVersion default_version = TorchVersion::k2_6;
  uint64_t ring_entries = 0;  // only the last N events are kept; 0: all
  AllocatorOptions allocator = {};
  SettingsText settings = {};
};

const std::vector<Workload>& workloads();

}  // namespace generator
