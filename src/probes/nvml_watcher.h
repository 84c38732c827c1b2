// NVML on its own thread. A driver that hangs hangs its callers, without end and beyond the
// reach of signals that can be caught; whoever draws a screen must not be one of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "probes/nvml.h"

namespace plimsoll::probes {

struct GpuView {
  bool is_known = false;           // false: the driver has not answered yet
  std::string why_none;            // in a sentence, where there is no GPU
  std::vector<GpuDevice> devices;  // as they were when the driver answered last
  std::int64_t age_ns = 0;         // of that answer, or of the question where there is none
};

struct NvmlWatcherOptions {
  std::string library = "libnvidia-ml.so.1";
  std::int64_t read_every_ns = 1'000'000'000;
  std::int64_t times_the_cost = 0;  // a reading takes at most 1/N of the time; 0: no limit
  // In place of Nvml::read(). Both are called on the thread, which may outlive the watcher.
  std::function<std::vector<GpuDevice>(Nvml&)> read = {};
  // Asked ten times a second: whether to read before it is time.
  std::function<bool()> is_urgent = {};
};

// If the driver hangs when this goes, its thread is left behind: the process should end soon.
class NvmlWatcher {
 public:
  explicit NvmlWatcher(NvmlWatcherOptions options);
  NvmlWatcher(const NvmlWatcher&) = delete;
  NvmlWatcher& operator=(const NvmlWatcher&) = delete;
  ~NvmlWatcher();

  GpuView view() const;
  // Waits for the first answer, so long at most.
  GpuView first_view(std::int64_t wait_ns) const;
  // Has the driver asked now, and waits for that answer, so long at most. False: none came.
  bool read_now(std::int64_t wait_ns) const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // with the thread, which may outlive this
};

}  // namespace plimsoll::probes
