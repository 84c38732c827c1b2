#include "alerts/detection.h"

#include <algorithm>
#include <utility>

#include "alerts/detection_rules.h"
#include "base/finding.h"
#include "sample/names.h"

namespace plimsoll {

std::string alert_text(const MemoryAlert& alert) {
  std::string text = to_string(alert.severity);
  for (char& letter : text) letter = static_cast<char>(letter - 'a' + 'A');
  text += " " + alert.title + "\n";
  for (const std::string& sentence : alert.evidence) text += "  - " + sentence + "\n";
  const char* mark = "  \xE2\x86\x92 ";
  for (const FindingStep& step : alert.steps) {
    text += mark + step_text(step) + "\n";
    mark = "    or: ";
  }
  return text;
}

namespace alerts {
namespace {

// No run has more devices; a hostile log may.
constexpr std::size_t kMostDevices = 256;
constexpr std::size_t kMostCategories = 64;
constexpr std::size_t kLosses = 24;

std::int64_t signed_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t kSane = std::uint64_t{1} << 62;
  return static_cast<std::int64_t>(std::min(bytes, kSane));
}

// The used memory of the device, by the best figure available.
std::optional<std::uint64_t> total_of(const DeviceMemory& device) {
  if (!device.categories.empty() || device.live_bytes > 0) return device.live_bytes;
  if (device.allocated_bytes) return device.allocated_bytes;
  return device.used_bytes;
}

bool is_more_severe(const Suspicion& a, const Suspicion& b) {
  if (a.alert.severity != b.alert.severity) return a.alert.severity > b.alert.severity;
  if (a.alert.saving_bytes() != b.alert.saving_bytes()) {
    return a.alert.saving_bytes() > b.alert.saving_bytes();
  }
  return a.key() < b.key();
}

}  // namespace

void Detector::remember_device(const MemorySample& sample, const DeviceMemory& device) {
  if (devices_.size() == kMostDevices && !devices_.contains(device.name)) return;
  DeviceHistory& history = devices_[device.name];
  history.before_last = std::exchange(history.last, device);
  const bool is_power_of_two = (samples_ & (samples_ - 1)) == 0;
  if (is_power_of_two) {
    history.older_layers = std::exchange(history.newer_layers, {iteration_, device.layers});
  }
  if (const auto total = total_of(device)) history.total.add(iteration_, signed_bytes(*total));
  if (const auto fit = batch_that_fits(sample, device)) history.fit = {*fit, iteration_};
  if (device.peak_bytes) {
    history.highest_peak_bytes =
        std::max(history.highest_peak_bytes.value_or(0), *device.peak_bytes);
  }
  if (const auto height = device.peak_bytes ? device.peak_bytes : total_of(device)) {
    history.height.add(iteration_, signed_bytes(*height));
  }
  if (device.categories.empty()) return;
  history.large_count.add(iteration_, signed_bytes(device.large_count));
  for (const MemoryShare& share : device.categories) {
    if (history.categories.size() < kMostCategories) history.categories.try_emplace(share.name);
  }
  for (auto& [name, series] : history.categories) {
    const auto share = std::ranges::find(device.categories, name, &MemoryShare::name);
    series.add(iteration_, share == device.categories.end() ? 0 : signed_bytes(share->size_bytes));
  }
}

void Detector::remember(const MemorySample& sample) {
  ++samples_;
  iteration_ = sample.iteration;
  for (const DeviceMemory& device : sample.devices) remember_device(sample, device);
  host_ = sample.host;
  if (host_.rss_bytes) host_rss_.add(iteration_, signed_bytes(*host_.rss_bytes));
  if (host_.workers_bytes) workers_.add(iteration_, signed_bytes(*host_.workers_bytes));
  if (!sample.loss) return;
  losses_.push_back(*sample.loss);
  if (losses_.size() > kLosses) losses_.pop_front();
}

void Detector::count_jumps(const MemorySample& sample) {
  const bool is_jump = std::ranges::any_of(sample.devices, [&](const DeviceMemory& device) {
    const auto history = devices_.find(device.name);
    return history != devices_.end() && jump_bytes(history->second, options_).has_value();
  });
  const bool is_spike = sample.loss && is_loss_spike(losses_, options_.loss_spike);
  jumps_.memory_jumps += is_jump ? 1 : 0;
  jumps_.loss_spikes += is_spike ? 1 : 0;
  jumps_.together += is_jump && is_spike ? 1 : 0;
}

const DeviceHistory* Detector::cpu() const {
  const auto found = devices_.find("cpu");
  return found == devices_.end() ? nullptr : &found->second;
}

bool Detector::is_to_be_reported(const Suspicion& suspicion) {
  const auto [reported, is_new] = reported_.try_emplace(suspicion.key());
  const bool is_due = suspicion.repeats == Repeats::kAfterAWhile &&
                      samples_ - reported->second.sample >= options_.alert_every;
  const bool is_worse = suspicion.magnitude >= options_.times_worse * reported->second.magnitude;
  if (!is_new && !is_due && !is_worse) return false;
  reported->second = {samples_, suspicion.magnitude};
  return true;
}

// An iteration that failed midway is excluded from every series.
std::vector<MemoryAlert> Detector::observe_failure(const MemorySample& sample) {
  Suspicions found;
  const Rules rules{options_, sample.iteration, found};
  if (const auto device = device_to_blame(sample)) {
    const auto history = devices_.find(device->name);
    rules.ran_out(sample, *device, history == devices_.end() ? nullptr : &history->second);
  }
  std::vector<MemoryAlert> alerts;
  for (const Suspicion& suspicion : found) {
    worst_[suspicion.key()] = suspicion;
    alerts.push_back(suspicion.alert);
  }
  return alerts;
}

std::vector<MemoryAlert> Detector::observe(const MemorySample& sample, const Survivors* survivors) {
  if (sample.ran_out) return observe_failure(sample);
  remember(sample);
  count_jumps(sample);
  Suspicions of_now;
  const Rules now{options_, iteration_, of_now};
  for (const DeviceMemory& device : sample.devices) {
    const auto history = devices_.find(device.name);
    if (history == devices_.end()) continue;
    now.fragmentation(device.name, history->second);
    now.nearly_full(device.name, history->second);
    if (sample.loss) now.jump_with_loss(device.name, history->second, losses_);
  }
  now.host_nearly_full(host_, cpu());
  for (const Suspicion& suspicion : of_now) {
    Suspicion& worst = worst_[suspicion.key()];
    if (suspicion.magnitude > worst.magnitude) worst = suspicion;
  }

  const Rules lasting{options_, iteration_, of_now};
  for (const DeviceMemory& device : sample.devices) {
    const auto history = devices_.find(device.name);
    if (history == devices_.end()) continue;
    if (survivors != nullptr && survivors->knows(device.name)) {
      lasting.growth(device.name, history->second, *survivors);
    } else {
      lasting.growth(device.name, history->second);
    }
  }
  lasting.host_growth(host_rss_, cpu());
  if (host_.workers_bytes) lasting.worker_growth(workers_);

  std::vector<MemoryAlert> alerts = crossed_thresholds(sample);
  std::ranges::sort(of_now, is_more_severe);
  for (Suspicion& suspicion : of_now) {
    if (is_to_be_reported(suspicion)) alerts.push_back(std::move(suspicion.alert));
  }
  return alerts;
}

// Alerts when memory rises above a threshold, and again only after it has fallen clearly below.
std::vector<MemoryAlert> Detector::crossed_thresholds(const MemorySample& sample) {
  constexpr double kRearmAt = 0.95;  // share of the threshold: memory that hovers around it alerts
                                     // only once
  Suspicions found;
  const Rules rules{options_, iteration_, found};
  for (const DeviceLoad& load : loads_of(sample)) {
    const auto history = devices_.find(load.device == "host" ? "cpu" : load.device);
    for (std::size_t i = 0; i < options_.alert_above.size(); ++i) {
      const MemoryThreshold& threshold = options_.alert_above[i];
      const std::optional<double> level = load.level(threshold);
      if (!level) continue;
      if (*level < kRearmAt * limit_of(threshold)) above_.erase({load.device, i});
      if (*level <= limit_of(threshold) || !above_.insert({load.device, i}).second) continue;
      rules.above(load, threshold, history == devices_.end() ? nullptr : &history->second);
    }
  }
  std::ranges::sort(found, is_more_severe);
  std::vector<MemoryAlert> alerts;
  for (Suspicion& suspicion : found) alerts.push_back(std::move(suspicion.alert));
  return alerts;
}

std::vector<MemoryAlert> Detector::observe_thresholds(const MemorySample& sample) {
  if (sample.ran_out) return {};
  remember(sample);
  return crossed_thresholds(sample);
}

std::vector<MemoryAlert> Detector::findings() const {
  Suspicions found;
  const Rules rules{options_, iteration_, found};
  for (const auto& [device, history] : devices_) {
    rules.growth(device, history);
  }
  rules.host_growth(host_rss_, cpu());
  rules.worker_growth(workers_);
  for (const auto& [key, suspicion] : worst_) found.push_back(suspicion);
  std::ranges::sort(found, is_more_severe);
  std::vector<MemoryAlert> alerts;
  for (Suspicion& suspicion : found) alerts.push_back(std::move(suspicion.alert));
  return alerts;
}

}  // namespace alerts
}  // namespace plimsoll
