// What `plimsoll top` shows at one moment, as values: made by TopProbe, drawn by top_frame.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/memory_sample.h"
#include "probes/cgroup_memory.h"
#include "probes/host_memory.h"
#include "probes/nvml_watcher.h"
#include "probes/process_memory.h"
#include "text/style.h"
#include "top/trend.h"

namespace plimsoll::top {

// Of tensors: as recorded, or where nothing is recorded as the caching allocator has it.
inline std::uint64_t held_bytes(const DeviceMemory& device) {
  return device.live_count > 0 ? device.live_bytes
                               : device.allocated_bytes.value_or(device.live_bytes);
}

struct TopGpuProcess {
  int pid = 0;
  std::string command;
  std::optional<std::uint64_t> used_bytes;      // as the driver has it
  std::optional<std::uint64_t> recorded_bytes;  // as our recording inside it has it
};

struct TopGpu {
  probes::GpuDevice device;
  std::vector<TopGpuProcess> processes;
  Trend trend;
};

struct TopProcess {
  probes::ProcessMemory memory;
  std::string command;
  std::string kind;             // "DataLoader worker", of a child of --pid; empty: any
  std::size_t child_count = 0;  // and theirs
};

struct TopRunDevice {
  DeviceMemory memory;
  std::uint64_t peak_bytes = 0;  // the highest that was seen, or that the run told
  Trend trend;
};

// A process that shows what it records.
struct TopRun {
  int pid = 0;
  std::string command;
  std::optional<MemorySample> sample;  // without its devices, which follow
  std::int64_t age_ns = 0;             // of the sample; since it was asked for where there is none
  std::vector<TopRunDevice> devices;
  std::optional<probes::ProcessFamily> family;
};

struct TopView {
  std::string clock;  // "16:41:05"
  bool gpu_is_known = false;
  std::string why_no_gpu;
  std::int64_t gpu_age_ns = 0;
  std::vector<TopGpu> gpus;
  probes::MachineMemory machine;
  std::optional<probes::CgroupMemory> cgroup;
  Trend host_trend;
  std::vector<TopProcess> processes;
  std::vector<TopRun> runs;
};

enum class TopSort : std::uint8_t { kMemory, kPid, kName };

// What the user chose; keys change it.
struct TopSettings {
  TopSort sort = TopSort::kMemory;
  std::string device;  // "0", "1", …: that GPU alone; "cpu": the host alone; empty: all
  std::optional<int> pid;
  double interval_s = 2;
  text::Color color = text::Color::kOff;
  std::size_t width = 100;
};

}  // namespace plimsoll::top
