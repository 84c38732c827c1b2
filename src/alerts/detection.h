// What goes wrong while a run trains: the rules, over one sample after the other. The same rules
// alert during the run and make the findings of `plimsoll analyze`. docs/monitoring.md lists them.
//
// Everything said is a number of this run. No rule advises empty_cache().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "alerts/batch_fit.h"
#include "alerts/series.h"
#include "base/fields.h"
#include "plimsoll/memory_sample.h"
#include "plimsoll/monitor_options.h"

namespace plimsoll::alerts {

class Survivors;

enum class AlertSeverity : std::uint8_t { kInfo, kWarning, kCritical };

inline const char* to_string(AlertSeverity severity) {
  switch (severity) {
    case AlertSeverity::kInfo:
      return "info";
    case AlertSeverity::kWarning:
      return "warning";
    case AlertSeverity::kCritical:
      return "critical";
  }
  return "info";
}

// All the ids there are.
inline constexpr std::array<std::string_view, 10> kAlertIds = {
    "activations_stay",   "temporaries_stay", "gradients_accumulate",  "memory_growth",
    "more_large_tensors", "fragmentation",    "memory_jump_with_loss", "device_nearly_full",
    "out_of_memory",      "above_threshold"};

struct Alert {
  std::string id;  // stable: one of kAlertIds
  AlertSeverity severity = AlertSeverity::kWarning;
  std::string device;   // "cuda:0", "cpu", "host"
  std::string subject;  // what of it: a category; may be empty
  std::int64_t iteration = 0;
  std::string title;                  // the verdict
  std::vector<std::string> evidence;  // each one sentence
  std::string next_step;
  std::uint64_t saving_bytes = 0;  // 0: nothing, or not known

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"id", &Alert::id, "Stable name of the rule."},
        Field{"severity", &Alert::severity, "info, warning or critical."},
        Field{"device", &Alert::device, "The device it is about, or host."},
        Field{"subject", &Alert::subject, "What of it: a category, or empty."},
        Field{"iteration", &Alert::iteration, "Iteration of the sample that raised it."},
        Field{"title", &Alert::title, "The verdict."},
        Field{"evidence", &Alert::evidence, "Why we say so."},
        Field{"next_step", &Alert::next_step, "What to do."},
        Field{"saving_bytes", &Alert::saving_bytes,
              "What that would save; 0 when nothing or not known."}};
  }
};

struct DetectionOptions {
  double growth_percent = 10;  // of what the device held when the growth began
  double least_confidence = 0.8;
  std::uint64_t least_growth_bytes = std::uint64_t{1} << 20;
  double fragmentation_percent = 40;
  std::uint64_t least_reserved_bytes = std::uint64_t{64} << 20;  // below, nobody cares
  double full_percent = 90;
  std::int64_t fewest_more_large_tensors = 5;
  double jump_percent = 20;  // above what is usual
  double loss_spike = 3;     // times what is usual
  // An alert is told again after so many samples, or when it got so many times worse.
  std::int64_t alert_every = 10;
  double times_worse = 2;
  // A percentage among them takes the place of full_percent.
  std::vector<MemoryThreshold> alert_above = {};
  std::string step = "iteration";  // what samples are counted by, in sentences
};

// Verdict, evidence and next step, a line each, as `plimsoll report` prints its findings.
std::string alert_text(const Alert& alert);

using AlertKey = std::tuple<std::string, std::string, std::string>;  // id, device, subject

struct Suspicion {
  Alert alert;
  double magnitude = 0;  // how bad, to compare with the same alert later

  AlertKey key() const { return {alert.id, alert.device, alert.subject}; }
};

// Which batch would fit, as the sample of an iteration told.
struct KnownFit {
  BatchFit fit;
  std::int64_t iteration = 0;
};

// What a detector remembers of a device.
struct DeviceHistory {
  std::map<std::string, Series> categories;
  Series total;  // of live tensors, or what else is known
  Series large_count;
  Series height;  // for jumps: the peak, or the total
  std::optional<std::uint64_t> highest_peak_bytes;
  std::optional<KnownFit> fit;  // the newest
  DeviceMemory last;
  DeviceMemory before_last;
  // Of two samples, the older one from the second quarter of all there were.
  struct Layers {
    std::int64_t iteration = 0;
    std::vector<MemoryShare> shares;
  };
  Layers older_layers;
  Layers newer_layers;
};

// Samples whose memory is far above what is usual, those whose loss is, and those where both are.
struct JumpCounts {
  std::uint64_t memory_jumps = 0;
  std::uint64_t loss_spikes = 0;
  std::uint64_t together = 0;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"memory_jumps", &JumpCounts::memory_jumps, "Of any device."},
        Field{"loss_spikes", &JumpCounts::loss_spikes, "Or a loss that is no number."},
        Field{"together", &JumpCounts::together, "Both in one sample."}};
  }
};

class Detector {
 public:
  explicit Detector(const DetectionOptions& options = {}) : options_(options) {}

  // What is to be told now.
  std::vector<Alert> observe(const MemorySample& sample) { return observe(sample, nullptr); }
  // The same where it is known which allocations stay.
  std::vector<Alert> observe(const MemorySample& sample, const Survivors& survivors) {
    return observe(sample, &survivors);
  }

  // Only the thresholds of alert_above: the other rules are off.
  std::vector<Alert> observe_thresholds(const MemorySample& sample);

  // All findings of the run so far, most severe first.
  std::vector<Alert> findings() const;

  const JumpCounts& jumps() const { return jumps_; }

 private:
  struct Told {
    std::int64_t sample = 0;
    double magnitude = 0;
  };

  std::vector<Alert> observe(const MemorySample& sample, const Survivors* survivors);
  void remember(const MemorySample& sample);
  void remember_device(const MemorySample& sample, const DeviceMemory& device);
  std::vector<Alert> observe_failure(const MemorySample& sample);
  void count_jumps(const MemorySample& sample);
  const DeviceHistory* cpu() const;
  bool is_to_be_told(const Suspicion& suspicion);
  std::vector<Alert> crossed_thresholds(const MemorySample& sample);

  DetectionOptions options_;
  std::int64_t samples_ = 0;
  std::int64_t iteration_ = 0;
  std::map<std::string, DeviceHistory> devices_;
  Series host_rss_;
  HostMemory host_;
  std::deque<double> losses_;  // the newest
  JumpCounts jumps_;
  std::map<AlertKey, Told> told_;
  std::set<std::pair<std::string, std::size_t>> above_;  // device, threshold
  std::map<AlertKey, Suspicion> worst_;                  // of conditions that do not last
};

}  // namespace plimsoll::alerts
