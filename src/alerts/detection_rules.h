// The rules of detection.h, each by itself: what a device's history makes one suspect.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alerts/detection.h"
#include "alerts/survivors.h"

namespace plimsoll::alerts {

using Suspicions = std::vector<Suspicion>;

// What thresholds are compared with.
struct DeviceLoad {
  std::string device;                       // or "host"
  std::optional<std::uint64_t> used_bytes;  // by all processes, of total_bytes
  std::optional<std::uint64_t> total_bytes;
  std::optional<std::uint64_t> held_bytes;  // for thresholds in bytes
  std::optional<std::uint64_t> peak_bytes;  // of tensors, since the sample before

  // In the threshold's unit; nullopt: unknown.
  std::optional<double> level(const MemoryThreshold& threshold) const;
};

// Of the accelerators, by their own figures; of the host, by this process and the machine.
std::vector<DeviceLoad> loads_of(const MemorySample& sample);

inline double limit_of(const MemoryThreshold& threshold) {
  return threshold.percent > 0 ? threshold.percent : static_cast<double>(threshold.bytes);
}

// Each appends what it finds; `iteration` is that of the newest sample.
struct Rules {
  const DetectionOptions& options;
  std::int64_t iteration;
  Suspicions& found;

  // What keeps rising, by category where categories are known; and peaks, where these rise alone.
  void growth(const std::string& device, const DeviceHistory& history) const;
  // The same of a device whose allocations are known: what stays of them counts, not what they sum
  // to. Peaks count if the device would be full before the run is twice as long.
  void growth(const std::string& device, const DeviceHistory& history,
              const Survivors& survivors) const;
  void host_growth(const Series& rss, const DeviceHistory* cpu) const;

  // What holds for the newest sample alone.
  void fragmentation(const std::string& device, const DeviceHistory& history) const;
  void nearly_full(const std::string& device, const DeviceHistory& history) const;
  void host_nearly_full(const HostMemory& host, const DeviceHistory* cpu) const;
  // `history`: of the tensors there; none: not known.
  void above(const DeviceLoad& load, const MemoryThreshold& threshold,
             const DeviceHistory* history) const;
  // `memory` is of device_to_blame(), `history` of the iterations before; what the failed one held
  // is in `sample`.
  void ran_out(const MemorySample& sample, const DeviceMemory& memory,
               const DeviceHistory* history) const;
  void jump_with_loss(const std::string& device, const DeviceHistory& history,
                      const std::deque<double>& losses) const;

 private:
  Suspicion& suspect(const char* id, AlertSeverity severity, const std::string& device,
                     const std::string& subject) const;
  void explain_fill(Alert& alert, const DeviceHistory& history) const;
  bool has_percent_threshold() const;
  void advise_batch(Alert& alert, const KnownFit& known) const;
  std::optional<Trend> rising(const Series& series, const Series& whole) const;
  enum class Peaks : std::uint8_t { kAll, kThatRunOut };
  void peak_growth(const std::string& device, const DeviceHistory& history, Peaks peaks) const;
  void more_large_tensors(const std::string& device, const DeviceHistory& history) const;
  bool is_large_enough(const LeftBehind& left, const DeviceMemory& device) const;
  void left_behind(const std::string& device, const DeviceHistory& history,
                   const CategoryGrowth& growth) const;
  void grown(const std::string& device, const DeviceHistory& history, const std::string& category,
             const Trend& trend) const;
  Alert& suspect_growth(const std::string& device, const std::string& category,
                        const Trend& trend) const;
  void add_time_left(Alert& alert, const DeviceHistory& history, double bytes_per_iteration) const;
};

// The device whose memory ran out, as the error's text tells it ("CUDA out of memory. ... GPU 1 has
// ..."); empty: it does not.
std::string device_that_ran_out(std::string_view error, const std::vector<DeviceMemory>& devices);
// That of the sample where it is known, else the fullest: the CPU only where there is no other.
std::optional<DeviceMemory> device_to_blame(const MemorySample& sample);

// How far the last height is above what is usual, if that is a jump.
std::optional<std::int64_t> jump_bytes(const DeviceHistory& history,
                                       const DetectionOptions& options);

// Whether the last loss is a spike above the ones before; nothing where these are too few.
std::optional<double> usual_loss(const std::deque<double>& losses);
bool is_loss_spike(const std::deque<double>& losses, double times);

}  // namespace plimsoll::alerts
