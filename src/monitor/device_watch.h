// Watches the GPUs that this process has CUDA devices on: what the driver reports of them, beside
// what our allocator held at that moment. A thread asks once a second, and for a hundredth of the
// time at most; samples take its newest answer, and each answer is reported to the recordings that
// run.
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
struct DeviceLook {
  std::int32_t ordinal = 0;
  std::string uuid = {};  // as the driver has it
  std::int64_t time_ns = 0;
  base::DeviceFigures figures = {};
};

// Puts together what driver, recorder and system tell. One thread.
class DeviceLooker {
 public:
  struct Sources {
    std::string cuda = "libcuda.so.1";
    std::string root = {};  // of /proc
    std::vector<plimsoll_usage> (*usage)() = nullptr;
    bool are_pids_ours = true;  // the driver counts processes as this one does
  };

  explicit DeviceLooker(Sources sources) : sources_(std::move(sources)) {}

  // The driver's devices, which are read anew where the allocator has taken or given back memory
  // meanwhile, and in `looks` those of this process.
  std::vector<probes::GpuDevice> look(probes::Nvml& nvml, std::vector<DeviceLook>& looks);
  // Whether memory was taken on a device on which there was none of ours yet.
  bool is_urgent() const;

 private:
  DeviceLook look_at(std::int32_t ordinal, const probes::GpuDevice& device,
                     const std::vector<plimsoll_usage>& usage);
  void tell_processes(const probes::GpuDevice& device, base::DeviceFigures& figures) const;
  void measure_context(const std::string& uuid, base::DeviceFigures& figures);

  Sources sources_;
  std::vector<std::string> uuids_;                 // of our CUDA devices, once CUDA is initialized
  std::set<std::string> without_us_;               // devices that were seen before we were on them
  std::map<std::string, std::uint64_t> contexts_;  // by the device's UUID
  std::set<std::int32_t> seen_;                    // ordinals with memory of this process
  bool has_nccl_ = false;
};

// The newest looks of the watch that runs, none where there is none. With a wait the driver is
// asked now, and its answer waited for so long at most.
std::vector<DeviceLook> device_looks(std::int64_t wait_ns = 0);

}  // namespace plimsoll::monitor
