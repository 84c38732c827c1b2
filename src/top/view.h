// The content of `plimsoll top` at one point in time, as values: TopProbe collects them, and
// top/frame.h formats them.
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

// Live bytes of tensors: the recorded bytes or, without a recording, the caching allocator's.
inline std::uint64_t live_bytes(const DeviceMemory& device) {
  return device.live_count > 0 ? device.live_bytes
                               : device.allocated_bytes.value_or(device.live_bytes);
}

struct TopGpuProcess {
  int pid = 0;
  std::string command;
  std::optional<std::uint64_t> used_bytes;      // from the driver
  std::optional<std::uint64_t> recorded_bytes;  // from our recording in the process
};

struct TopGpu {
  probes::GpuDevice device;
  std::vector<TopGpuProcess> processes;
  Trend trend;
};

struct TopProcess {
  probes::ProcessMemory memory;
  std::string command;
  std::string kind;             // "DataLoader worker", for a child of --pid; empty: any other
                                // process
  std::size_t child_count = 0;  // descendants
};

struct TopRunDevice {
  DeviceMemory memory;
  std::uint64_t peak_bytes = 0;  // the highest value seen or reported
  Trend trend;
};

// A process that publishes its memory use.
struct TopRun {
  int pid = 0;
  std::string command;
  std::optional<MemorySample> sample;  // its devices are in `devices`
  std::int64_t age_ns = 0;  // age of the sample; without one, time since the first request
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

// The settings that the user chooses; keys change them.
struct TopSettings {
  TopSort sort = TopSort::kMemory;
  std::string device;  // "0", "1", …: only that GPU; "cpu": only the host; empty: all
  std::optional<int> pid;
  double interval_s = 2;
  text::Color color = text::Color::kOff;
  std::size_t width = 100;
};

}  // namespace plimsoll::top
