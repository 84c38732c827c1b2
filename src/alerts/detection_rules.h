// The rules of detection.h: each looks for one problem in a device's history.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alerts/detection.h"
#include "alerts/survivors.h"
#include "base/finding.h"

namespace plimsoll::alerts {

using Suspicions = std::vector<Suspicion>;

// The values that thresholds are compared with.
struct DeviceLoad {
  std::string device;                       // or "host"
  std::optional<std::uint64_t> used_bytes;  // by all processes, out of total_bytes
  std::optional<std::uint64_t> total_bytes;
  std::optional<std::uint64_t> live_bytes;  // for thresholds in bytes
  std::optional<std::uint64_t> peak_bytes;  // for tensors, since the previous sample

  // The memory used, in the threshold's unit; nullopt if unknown.
  std::optional<double> level(const MemoryThreshold& threshold) const;
};

// For accelerators, their own figures; for the host, those of this process and of the machine.
std::vector<DeviceLoad> loads_of(const MemorySample& sample);

inline double limit_of(const MemoryThreshold& threshold) {
  return threshold.percent > 0 ? threshold.percent : static_cast<double>(threshold.bytes);
}

// Each rule appends its findings; `iteration` is that of the newest sample.
struct Rules {
  const DetectionOptions& options;
  std::int64_t iteration;
  Suspicions& found;

  // Memory that keeps rising, by category if categories are known; and peaks that rise on their
  // own.
  void growth(const std::string& device, const DeviceHistory& history) const;
  // The same for a device with known allocations: judged by the survivors, not by sums. Peaks count
  // if the device would be full before the run is twice as long.
  void growth(const std::string& device, const DeviceHistory& history,
              const Survivors& survivors) const;
  void host_growth(const Series& rss, const DeviceHistory* cpu) const;
  void worker_growth(const Series& workers) const;

  // Conditions of the newest sample only.
  void fragmentation(const std::string& device, const DeviceHistory& history) const;
  void nearly_full(const std::string& device, const DeviceHistory& history) const;
  void host_nearly_full(const HostMemory& host, const DeviceHistory* cpu) const;
  // `history`: of the load's tensors; null if unknown.
  void above(const DeviceLoad& load, const MemoryThreshold& threshold,
             const DeviceHistory* history) const;
  // `memory` belongs to device_to_blame(), `history` to the iterations before; the memory of the
  // failed iteration is in `sample`.
  void ran_out(const MemorySample& sample, const DeviceMemory& memory,
               const DeviceHistory* history) const;
  void jump_with_loss(const std::string& device, const DeviceHistory& history,
                      const std::deque<double>& losses) const;

 private:
  Suspicion& suspect(const char* id, FindingSeverity severity, const std::string& device,
                     const std::string& subject) const;
  void explain_fill(MemoryAlert& alert, const DeviceHistory& history) const;
  bool has_percent_threshold() const;
  void advise_batch(MemoryAlert& alert, const KnownFit& known) const;
  std::optional<Trend> rising(const Series& series, const Series& whole) const;
  enum class Peaks : std::uint8_t { kAll, kThatRunOut };
  void peak_growth(const std::string& device, const DeviceHistory& history, Peaks peaks) const;
  void more_large_tensors(const std::string& device, const DeviceHistory& history) const;
  void logged_growth(const std::string& device, const DeviceHistory& history) const;
  void left_behind(const std::string& device, const DeviceHistory& history,
                   const CategoryGrowth& growth) const;
  void grown(const std::string& device, const DeviceHistory& history, const std::string& category,
             const Trend& trend) const;
  MemoryAlert& suspect_growth(const std::string& device, const std::string& category,
                              const Trend& trend) const;
  void add_time_left(MemoryAlert& alert, const DeviceHistory& history,
                     double bytes_per_iteration) const;
};

// The device whose memory ran out, from the error's text ("CUDA out of memory. ... GPU 1 has ...");
// empty if it names none.
std::string device_that_ran_out(std::string_view error, const std::vector<DeviceMemory>& devices);
// The sample's failing device if it is known, else the fullest; the CPU only if there is no other.
std::optional<DeviceMemory> device_to_blame(const MemorySample& sample);

// How far the last value exceeds the usual one; nullopt if that is not a jump.
std::optional<std::int64_t> jump_bytes(const DeviceHistory& history,
                                       const DetectionOptions& options);

// The median of the losses before the last one, nullopt if there are too few; and whether the last
// one is a spike above it.
std::optional<double> usual_loss(const std::deque<double>& losses);
bool is_loss_spike(const std::deque<double>& losses, double times);

}  // namespace plimsoll::alerts
