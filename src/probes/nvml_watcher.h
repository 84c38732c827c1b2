// Runs NVML on a separate thread. A hanging driver blocks its callers forever, beyond the reach of
// any catchable signal, so the thread that draws a screen must never call it.
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
  std::string why_none;            // one sentence, if there is no GPU
  std::vector<GpuDevice> devices;  // as of the driver's last answer
  std::int64_t age_ns = 0;         // of that answer, or of the query if there is no answer
};

struct NvmlWatcherOptions {
  std::string library = "libnvidia-ml.so.1";
  std::int64_t read_every_ns = 1'000'000'000;
  std::int64_t times_the_cost = 0;  // a reading takes at most 1/N of the time; 0: no limit
  // Replaces Nvml::read() in tests. Both functions are called on the thread, which may outlive the
  // watcher.
  std::function<std::vector<GpuDevice>(Nvml&)> read = {};
  // Called ten times a second. Returns whether to read before the next reading is due.
  std::function<bool()> is_urgent = {};
};

// If the driver hangs during destruction, the thread is abandoned: the process should end soon.
class NvmlWatcher {
 public:
  explicit NvmlWatcher(NvmlWatcherOptions options);
  NvmlWatcher(const NvmlWatcher&) = delete;
  NvmlWatcher& operator=(const NvmlWatcher&) = delete;
  ~NvmlWatcher();

  GpuView view() const;
  // Waits for the first answer, at most this long.
  GpuView first_view(std::int64_t wait_ns) const;
  // Queries the driver now and waits at most this long for the answer. Returns false if none came.
  bool read_now(std::int64_t wait_ns) const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this
};

}  // namespace plimsoll::probes
