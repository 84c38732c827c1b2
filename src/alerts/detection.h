// Detects memory problems while a run trains, by applying rules to one sample after another. The
// same rules raise alerts during the run and produce the findings of `plimsoll analyze`.
// docs/monitoring-reference.md lists them.
//
// All statements are numbers of this run. No rule recommends empty_cache().
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
#include "base/finding.h"
#include "plimsoll/memory_sample.h"
#include "plimsoll/monitor_options.h"

namespace plimsoll::alerts {

class Survivors;

// All alert ids.
inline constexpr std::array<std::string_view, 10> kAlertIds = {
    "activations_stay",   "temporaries_stay", "gradients_accumulate",  "memory_growth",
    "more_large_tensors", "fragmentation",    "memory_jump_with_loss", "device_nearly_full",
    "out_of_memory",      "above_threshold"};

struct DetectionOptions {
  double growth_percent = 10;  // of the device's live memory when the growth began
  double least_confidence = 0.8;
  std::uint64_t least_growth_bytes = std::uint64_t{1} << 20;
  double fragmentation_percent = 40;
  std::uint64_t least_reserved_bytes = std::uint64_t{64} << 20;  // less than this is negligible
  double full_percent = 90;
  std::int64_t fewest_more_large_tensors = 5;
  double jump_percent = 20;  // above the usual value
  double loss_spike = 3;     // times the usual loss
  // An alert is repeated after this many samples, or when it has become this many times worse;
  // growth only when it has.
  std::int64_t alert_every = 10;
  double times_worse = 2;
  // A percentage in this list replaces full_percent.
  std::vector<MemoryThreshold> alert_above = {};
  std::string step = "iteration";  // the unit that samples count, as named in sentences
};

using AlertKey = std::tuple<std::string, std::string, std::string>;  // id, device, subject

// Growth is one story, whose figure says all: it is repeated only when that has become much worse.
enum class Repeats : std::uint8_t { kAfterAWhile, kIfWorse };

struct Suspicion {
  MemoryAlert alert;
  double magnitude = 0;  // severity, compared with the same alert later
  Repeats repeats = Repeats::kAfterAWhile;

  AlertKey key() const { return {alert.id, alert.device, alert.subject}; }
};

// Which batch would fit, according to the sample of an iteration.
struct KnownFit {
  BatchFit fit;
  std::int64_t iteration = 0;
};

// The history of a device.
struct DeviceHistory {
  std::map<std::string, Series> categories;
  Series total;  // of live tensors or, if those are unknown, the best figure available
  Series large_count;
  Series height;  // for jumps: the peak, or the total
  std::optional<std::uint64_t> highest_peak_bytes;
  std::optional<KnownFit> fit;  // the newest one
  DeviceMemory last;
  DeviceMemory before_last;
  // Two samples: the newest, and an older one from the second quarter of the run.
  struct Layers {
    std::int64_t iteration = 0;
    std::vector<MemoryShare> shares;
  };
  Layers older_layers;
  Layers newer_layers;
};

// Numbers of samples with unusually high memory, with unusually high loss, and with both.
struct JumpCounts {
  std::uint64_t memory_jumps = 0;
  std::uint64_t loss_spikes = 0;
  std::uint64_t together = 0;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"memory_jumps", &JumpCounts::memory_jumps, "Jumps of the memory of any device."},
        Field{"loss_spikes", &JumpCounts::loss_spikes,
              "Jumps of the loss, including a loss that is not a number."},
        Field{"together", &JumpCounts::together, "Samples in which both jumped."});
  }
};

class Detector {
 public:
  explicit Detector(const DetectionOptions& options = {}) : options_(options) {}

  // Adds a sample and returns the alerts to raise now.
  std::vector<MemoryAlert> observe(const MemorySample& sample) { return observe(sample, nullptr); }
  // The same if the surviving allocations are known.
  std::vector<MemoryAlert> observe(const MemorySample& sample, const Survivors& survivors) {
    return observe(sample, &survivors);
  }

  // Checks only the thresholds of alert_above; the other rules are off.
  std::vector<MemoryAlert> observe_thresholds(const MemorySample& sample);

  // All findings of the run so far, most severe first.
  std::vector<MemoryAlert> findings() const;

  const JumpCounts& jumps() const { return jumps_; }

 private:
  struct Reported {
    std::int64_t sample = 0;
    double magnitude = 0;
  };

  std::vector<MemoryAlert> observe(const MemorySample& sample, const Survivors* survivors);
  void remember(const MemorySample& sample);
  void remember_device(const MemorySample& sample, const DeviceMemory& device);
  std::vector<MemoryAlert> observe_failure(const MemorySample& sample);
  void count_jumps(const MemorySample& sample);
  const DeviceHistory* cpu() const;
  bool is_to_be_reported(const Suspicion& suspicion);
  std::vector<MemoryAlert> crossed_thresholds(const MemorySample& sample);

  DetectionOptions options_;
  std::int64_t samples_ = 0;
  std::int64_t iteration_ = 0;
  std::map<std::string, DeviceHistory> devices_;
  Series host_rss_;
  Series workers_;
  HostMemory host_;
  std::deque<double> losses_;  // the newest ones
  JumpCounts jumps_;
  std::map<AlertKey, Reported> reported_;
  std::set<std::pair<std::string, std::size_t>> above_;  // device, threshold
  std::map<AlertKey, Suspicion> worst_;                  // of transient conditions
};

}  // namespace plimsoll::alerts
