// The presets: what a made-up program does on a Machine, with what settings, and how long.
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
  uint64_t default_events = 0;  // 0: the workload knows when it is done
  size_t default_depth = 32;
  TorchVersion default_version = TorchVersion::k2_6;
  uint64_t ring_entries = 0;  // only that many last events are kept; 0 is all
  AllocatorOptions allocator = {};
  SettingsText settings = {};
};

const std::vector<Workload>& workloads();

}  // namespace generator
