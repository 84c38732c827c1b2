// Watches the GPUs of this process's CUDA devices: the driver's figures, combined with the
// allocator's at the same time. A thread queries them once a second, using at most a hundredth of
// the time; samples use its newest reading, and every reading is reported to the running
// recordings.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/device_bar.h"
#include "plimsoll/recorder_c.h"
#include "probes/nvml.h"
#include "probes/nvml_watcher.h"

namespace plimsoll::monitor {

// One CUDA device of this process.
struct DeviceReading {
  std::int32_t ordinal = 0;
  std::string uuid = {};  // from the driver
  std::int64_t time_ns = 0;
  base::DeviceFigures figures = {};
};

// Combines the figures of driver, recorder and system. Use it on one thread.
class DeviceReader {
 public:
  struct Sources {
    std::string cuda = "libcuda.so.1";
    std::string root = {};  // prefix of /proc, for tests
    std::vector<plimsoll_usage> (*usage)() = nullptr;
    bool are_pids_ours = true;  // the driver's pids are valid in this pid namespace
  };

  explicit DeviceReader(Sources sources) : sources_(std::move(sources)) {}

  // The driver's devices, read again if the allocator has reserved or released memory in the
  // meantime; `readings` receives those of this process.
  std::vector<probes::GpuDevice> read(probes::Nvml& nvml, std::vector<DeviceReading>& readings);
  // Whether memory was allocated on a device where this process had none before.
  bool is_urgent() const;

 private:
  DeviceReading read_device(std::int32_t ordinal, const probes::GpuDevice& device,
                            const std::vector<plimsoll_usage>& usage);
  void report_processes(const probes::GpuDevice& device, base::DeviceFigures& figures) const;
  void measure_context(const std::string& uuid, base::DeviceFigures& figures);

  Sources sources_;
  std::vector<std::string> uuids_;    // of this process's CUDA devices, once CUDA is initialized
  std::set<std::string> without_us_;  // devices seen before this process used them
  std::map<std::string, std::uint64_t> contexts_;  // by the device's UUID
  std::set<std::int32_t> seen_;                    // ordinals with memory of this process
  bool has_nccl_ = false;
};

// The newest readings of the running watch; empty if none is running. With a wait, queries the
// driver now and waits at most that long for the answer.
std::vector<DeviceReading> device_readings(std::int64_t wait_ns = 0);

}  // namespace plimsoll::monitor
