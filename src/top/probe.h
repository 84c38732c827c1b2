// Collects the data of `plimsoll top`: the machine, its GPUs, and the runs that publish samples,
// with the history that a sparkline of the last minute needs. One thread.
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
  std::string root;  // folder that contains proc and sys
  std::string nvml = "libnvidia-ml.so.1";
  std::vector<std::string> live_folders = live::live_status_folders();
  std::optional<int> pid;  // only this process and its children
  std::int64_t interval_ns = 2'000'000'000;
  std::int64_t pss_every_ns = 10'000'000'000;  // how often to read the PSS of `pid`'s family
};

class TopProbe {
 public:
  explicit TopProbe(TopSources sources);

  TopView sample();
  // Reads only GPUs and host, without processes and runs.
  TopView sample_devices();
  // Waits until the driver and all runs have answered once, at most this long.
  void wait_for_answers(std::int64_t wait_ns);

 private:
  struct Watched {
    live::LiveStatusReader reader;
    std::string command;
    std::int64_t asked_ns;      // time of the first request
    std::int64_t before_ns;     // time of the sample that existed then; 0: none
    std::int64_t fresh_ns = 0;  // time when its newest sample was first seen
    std::optional<MemorySample> sample = {};
    std::map<std::string, std::uint64_t> peaks = {};
    std::map<std::string, Trend> trends = {};
  };

  void sample_gpus(TopView& view);
  void sample_host(TopView& view);
  void sample_processes(TopView& view);
  void sample_runs(TopView& view);
  void watch_who_is_there();
  void take_sample(Watched& watched, std::int64_t now_ns);
  void report_gpu_processes(TopView& view) const;
  probes::ProcessFamily family_of(int pid, std::int64_t now_ns);
  std::string command_of(int pid) const;

  TopSources sources_;
  probes::NvmlWatcher nvml_;
  std::map<int, Watched> watched_;
  std::map<std::string, Trend> gpu_trends_;
  Trend host_trend_;
  std::map<int, std::uint64_t> pss_bytes_;  // for --pid's family; expensive to read
  std::int64_t pss_ns_ = 0;
};

}  // namespace plimsoll::top
