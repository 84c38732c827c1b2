// Looks at the machine, its GPUs and the runs that show what they record, for `plimsoll top`. Keeps
// what a picture of the last minute needs. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "live/live_status.h"
#include "probes/nvml_watcher.h"
#include "top/view.h"

namespace plimsoll::top {

struct TopSources {
  std::string root;  // of /proc and /sys
  std::string nvml = "libnvidia-ml.so.1";
  std::vector<std::string> live_folders = live::live_status_folders();
  std::optional<int> pid;  // this process and its children alone
  std::int64_t interval_ns = 2'000'000'000;
};

class TopProbe {
 public:
  explicit TopProbe(TopSources sources);

  TopView look();
  // GPUs and host alone, without processes and runs.
  TopView look_at_devices();
  // Until the driver and all runs have answered once, or so long.
  void wait_for_answers(std::int64_t wait_ns);

 private:
  struct Watched {
    live::LiveStatusReader reader;
    std::string command;
    std::int64_t asked_ns;      // when it was first asked
    std::int64_t before_ns;     // time of a sample that stood there already; 0: none
    std::int64_t fresh_ns = 0;  // when its newest sample was first seen
    std::optional<MemorySample> sample = {};
    std::map<std::string, std::uint64_t> peaks = {};
    std::map<std::string, Trend> trends = {};
  };

  void look_at_gpus(TopView& view);
  void look_at_host(TopView& view);
  void look_at_processes(TopView& view);
  void look_at_runs(TopView& view);
  void watch_who_is_there();
  void take_sample(Watched& watched, std::int64_t now_ns);
  void tell_gpu_processes(TopView& view) const;
  probes::ProcessFamily family_of(int pid, std::int64_t now_ns);
  std::string command_of(int pid) const;

  TopSources sources_;
  probes::NvmlWatcher nvml_;
  std::map<int, Watched> watched_;
  std::map<std::string, Trend> gpu_trends_;
  Trend host_trend_;
  std::map<int, std::uint64_t> pss_bytes_;  // of --pid's family, dear to ask for
  std::int64_t pss_ns_ = 0;
};

}  // namespace plimsoll::top
