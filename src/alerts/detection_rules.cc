#include "alerts/detection_rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sample/quantities.h"

namespace plimsoll::alerts {
namespace {

constexpr std::size_t kFewestLosses = 5;
// Beyond this share of the device, one more batch like the last may not fit.
constexpr double kCriticalPercent = 97;

}  // namespace

Suspicion& Rules::suspect(const char* id, FindingSeverity severity, const std::string& device,
                          const std::string& subject) const {
  Suspicion& suspicion = found.emplace_back();
  suspicion.alert.id = id;
  suspicion.alert.severity = severity;
  suspicion.alert.device = device;
  suspicion.alert.subject = subject;
  suspicion.alert.iteration = iteration;
  return suspicion;
}

// ---- conditions of the newest sample ----------------------------------------------------------

// Cached memory is not waste by itself: the peak may need it. Only memory that no peak has used is.
void Rules::fragmentation(const std::string& device, const DeviceHistory& history) const {
  const DeviceMemory& last = history.last;
  const auto ratio = fragmentation_ratio(last);
  if (!ratio || *last.reserved_bytes < options.least_reserved_bytes) return;
  if (*ratio * 100 <= options.fragmentation_percent) return;
  const std::uint64_t reserved = *last.reserved_bytes;
  const auto peak = history.highest_peak_bytes;
  const std::uint64_t unused = peak && *peak < reserved ? reserved - *peak : 0;
  const double unused_percent =
      sample::share_percent(static_cast<double>(unused), static_cast<double>(reserved));
  if (peak && unused_percent <= options.fragmentation_percent) return;

  const auto severity = peak ? FindingSeverity::kWarning : FindingSeverity::kInfo;
  Suspicion& suspicion = suspect("fragmentation", severity, device, "");
  suspicion.magnitude = *ratio;
  MemoryAlert& alert = suspicion.alert;
  alert.title = sample::percent_text(*ratio * 100) + " of what PyTorch has reserved on " + device +
                " is not allocated";
  alert.evidence.push_back(sample::bytes_text(reserved) + " reserved, " +
                           sample::bytes_text(*last.allocated_bytes) + " allocated, at " +
                           options.step + " " + std::to_string(iteration));
  if (!peak) {
    alert.evidence.push_back(
        "How much of that the peak of an iteration needs is unknown: the log has no peak");
    alert.steps = {
        {"Record with plimsoll run or torch.cuda.memory._record_memory_history: plimsoll report "
         "shows what is stranded and which line pins it."}};
    return;
  }
  alert.evidence.push_back("The highest peak was " + sample::bytes_text(*peak) + ": " +
                           sample::bytes_text(unused) + " were never needed simultaneously");
  alert.steps = {
      step_up_to("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: segments then grow, and no "
                 "new ones are needed.",
                 unused)};
}

bool Rules::has_percent_threshold() const {
  return std::ranges::any_of(options.alert_above,
                             [](const MemoryThreshold& each) { return each.percent > 0; });
}

void Rules::nearly_full(const std::string& device, const DeviceHistory& history) const {
  const DeviceMemory& last = history.last;
  if (has_percent_threshold() || !last.used_bytes || !last.total_bytes) return;
  const double percent = sample::share_percent(static_cast<double>(*last.used_bytes),
                                               static_cast<double>(*last.total_bytes));
  if (percent < options.full_percent) return;
  const auto severity =
      percent >= kCriticalPercent ? FindingSeverity::kCritical : FindingSeverity::kWarning;
  Suspicion& suspicion = suspect("device_nearly_full", severity, device, "");
  suspicion.magnitude = percent;
  MemoryAlert& alert = suspicion.alert;
  alert.title = device + " is nearly full at " + options.step + " " + std::to_string(iteration) +
                ": " + sample::bytes_text(*last.used_bytes) + " of " +
                sample::bytes_text(*last.total_bytes) + " in use (" +
                sample::percent_text(percent) + ")";
  explain_fill(alert, history);
}

// Adds which live tensors could be smaller.
void Rules::explain_fill(MemoryAlert& alert, const DeviceHistory& history) const {
  const DeviceMemory& last = history.last;
  if (last.used_bytes && last.reserved_bytes && *last.used_bytes > *last.reserved_bytes) {
    alert.evidence.push_back(sample::bytes_text(*last.reserved_bytes) + " are PyTorch's, " +
                             sample::bytes_text(*last.used_bytes - *last.reserved_bytes) +
                             " belong to the CUDA context, libraries or other processes");
  }
  if (last.categories.empty()) {
    alert.steps = {{"The samples do not show what fills it: log with profile_tensors on."}};
    return;
  }

  const std::uint64_t activations = sample::bytes_of_name(last.categories, "activation");
  std::uint64_t in_float32 = 0;
  const LiveTensor* largest = nullptr;
  for (const LiveTensor& tensor : last.large_tensors) {
    if (tensor.category != "activation") continue;
    if (largest == nullptr) largest = &tensor;
    if (tensor.dtype == "float32") in_float32 += tensor.size_bytes;
  }
  const MemoryShare& first = last.categories.front();
  alert.evidence.push_back("The largest category is " + first.name + ": " +
                           sample::bytes_text(first.size_bytes) + " of " +
                           sample::bytes_text(last.live_bytes));
  if (in_float32 > 0) {
    alert.evidence.push_back(
        sample::bytes_text(in_float32) +
        " are large activations in float32; bfloat16 (torch.autocast) halves them");
    alert.steps.push_back(step_up_to("Use mixed precision for these activations.", in_float32 / 2));
  }
  if (largest != nullptr && !largest->layer.empty()) {
    const std::uint64_t layer = sample::bytes_of_name(last.layers, largest->layer);
    alert.evidence.push_back("The largest activation, " + sample::bytes_text(largest->size_bytes) +
                             ", is created by " + largest->layer + ", which uses " +
                             sample::bytes_text(std::max(layer, largest->size_bytes)));
    alert.steps.push_back(
        {"In training, checkpoint " + largest->layer + " (torch.utils.checkpoint)."});
  }
  if (alert.steps.empty()) {
    alert.steps.push_back(
        {"Record with plimsoll run: plimsoll report shows which layers and lines use it."});
  }
  if (history.fit) {
    advise_batch(alert, *history.fit);
  } else if (activations > 0) {
    alert.steps.push_back(step_up_to("Halve the batch.", activations / 2));
  }
}

// The batch that would fit comes before all other suggestions.
void Rules::advise_batch(MemoryAlert& alert, const KnownFit& known) const {
  for (std::string& sentence : batch_evidence(known.fit, options.step, known.iteration)) {
    alert.evidence.push_back(std::move(sentence));
  }
  const std::uint64_t needed = known.fit.bytes_at(known.fit.largest);
  const std::uint64_t saving = known.fit.peak_bytes - std::min(known.fit.peak_bytes, needed);
  alert.steps.insert(alert.steps.begin(), step_up_to(batch_advice(known.fit), saving));
}

void Rules::host_nearly_full(const HostMemory& host, const DeviceHistory* cpu) const {
  if (has_percent_threshold() || !host.used_bytes || !host.total_bytes) return;
  const double percent = sample::share_percent(static_cast<double>(*host.used_bytes),
                                               static_cast<double>(*host.total_bytes));
  if (percent < options.full_percent) return;
  const auto severity =
      percent >= kCriticalPercent ? FindingSeverity::kCritical : FindingSeverity::kWarning;
  Suspicion& suspicion = suspect("device_nearly_full", severity, "host", "");
  suspicion.magnitude = percent;
  MemoryAlert& alert = suspicion.alert;
  alert.title = "Host memory is nearly full at " + options.step + " " + std::to_string(iteration) +
                ": " + sample::bytes_text(*host.used_bytes) + " of " +
                sample::bytes_text(*host.total_bytes) + " in use (" +
                sample::percent_text(percent) + ")";
  if (host.rss_bytes) {
    alert.evidence.push_back(
        "This process has " + sample::bytes_text(*host.rss_bytes) + " of it" +
        (host.workers_bytes ? ", and its workers alone " + sample::bytes_text(*host.workers_bytes)
                            : std::string()));
  }
  alert.steps = {
      {"Run plimsoll top to see the rest: DataLoader workers, shared memory, other processes."}};
  if (cpu != nullptr && cpu->fit) advise_batch(alert, *cpu->fit);
}

// ---- thresholds -------------------------------------------------------------------------------

std::optional<double> DeviceLoad::level(const MemoryThreshold& threshold) const {
  if (threshold.percent > 0) {
    if (!used_bytes || !total_bytes) return std::nullopt;
    return sample::share_percent(static_cast<double>(*used_bytes),
                                 static_cast<double>(*total_bytes));
  }
  if (!live_bytes && !peak_bytes) return std::nullopt;
  return static_cast<double>(std::max(live_bytes.value_or(0), peak_bytes.value_or(0)));
}

std::vector<DeviceLoad> loads_of(const MemorySample& sample) {
  std::vector<DeviceLoad> loads;
  DeviceLoad host{.device = "host",
                  .used_bytes = sample.host.used_bytes,
                  .total_bytes = sample.host.total_bytes,
                  .live_bytes = sample.host.rss_bytes,
                  .peak_bytes = std::nullopt};
  for (const DeviceMemory& device : sample.devices) {
    if (sample::is_cpu(device.name)) {
      host.peak_bytes = device.peak_bytes;
      continue;
    }
    const auto held = device.used_bytes       ? device.used_bytes
                      : device.reserved_bytes ? device.reserved_bytes
                                              : device.allocated_bytes;
    loads.push_back({.device = device.name,
                     .used_bytes = device.used_bytes,
                     .total_bytes = device.total_bytes,
                     .live_bytes = held ? held : std::optional(device.live_bytes),
                     .peak_bytes = device.peak_bytes});
  }
  loads.push_back(std::move(host));
  return loads;
}

void Rules::above(const DeviceLoad& load, const MemoryThreshold& threshold,
                  const DeviceHistory* history) const {
  const double level = load.level(threshold).value_or(0);
  const bool is_share = threshold.percent > 0;
  const auto severity = is_share && level >= kCriticalPercent ? FindingSeverity::kCritical
                                                              : FindingSeverity::kWarning;
  const std::string limit = is_share ? sample::number_text(threshold.percent, "%g%%")
                                     : sample::bytes_text(threshold.bytes);
  MemoryAlert& alert = suspect("above_threshold", severity, load.device, limit).alert;
  const bool is_host = load.device == "host";
  const std::string place = !is_host ? load.device : is_share ? "The host" : "This process";
  const std::string at = " at " + options.step + " " + std::to_string(iteration);
  alert.title = place +
                (is_share ? " is " + sample::percent_text(level) + " full"
                          : " uses " + sample::bytes_text(level)) +
                at + ", above " + limit;
  if (is_share) {
    alert.evidence.push_back(sample::bytes_text(*load.used_bytes) + " of " +
                             sample::bytes_text(*load.total_bytes) +
                             " are in use, by all processes");
  } else if (load.peak_bytes && *load.peak_bytes > load.live_bytes.value_or(0)) {
    alert.evidence.push_back("The tensors' peak since the previous sample; now " +
                             sample::bytes_text(load.live_bytes.value_or(0)) + " are live");
  }
  if (history != nullptr) {
    explain_fill(alert, *history);
  } else {
    alert.steps = {{"Run plimsoll top to see which processes use it."}};
  }
}

// ---- jumps ------------------------------------------------------------------------------------

std::optional<std::int64_t> jump_bytes(const DeviceHistory& history,
                                       const DetectionOptions& options) {
  const auto usual = history.height.usual();
  const auto jump = history.height.jump();
  if (!jump || *usual <= 0) return std::nullopt;
  if (*jump < static_cast<std::int64_t>(options.least_growth_bytes)) return std::nullopt;
  const double percent =
      sample::share_percent(static_cast<double>(*jump), static_cast<double>(*usual));
  return percent < options.jump_percent ? std::nullopt : jump;
}

std::optional<double> usual_loss(const std::deque<double>& losses) {
  std::vector<double> before;
  for (std::size_t i = 0; i + 1 < losses.size(); ++i) {
    if (std::isfinite(losses[i])) before.push_back(losses[i]);
  }
  if (before.size() < kFewestLosses) return std::nullopt;
  const auto middle = before.begin() + static_cast<std::ptrdiff_t>(before.size() / 2);
  std::ranges::nth_element(before, middle);
  return *middle;
}

bool is_loss_spike(const std::deque<double>& losses, double times) {
  const auto usual = usual_loss(losses);
  if (!usual) return false;
  if (!std::isfinite(losses.back())) return true;
  return *usual > 0 && losses.back() > times * *usual;
}

void Rules::jump_with_loss(const std::string& device, const DeviceHistory& history,
                           const std::deque<double>& losses) const {
  const auto jumped = jump_bytes(history, options);
  if (!jumped || !is_loss_spike(losses, options.loss_spike)) return;
  const auto height = static_cast<double>(history.height.last());
  const auto usual = static_cast<double>(history.height.usual().value_or(0));
  const double jump = height - usual;
  Suspicion& suspicion = suspect("memory_jump_with_loss", FindingSeverity::kWarning, device, "");
  suspicion.magnitude = jump;
  MemoryAlert& alert = suspicion.alert;
  alert.title = "Memory of " + device + " and the loss jumped together at " + options.step + " " +
                std::to_string(iteration) + ": " + sample::bytes_text(jump) + " more than usual (" +
                sample::percent_text(sample::share_percent(jump, usual)) + ")";
  alert.evidence.push_back("Memory " + sample::bytes_text(height) + ", usually " +
                           sample::bytes_text(usual));
  alert.evidence.push_back("Loss " + sample::number_text(losses.back(), "%.6g") + ", usually " +
                           sample::number_text(*usual_loss(losses), "%.6g"));
  const auto most = sample::most_grown(history.before_last.categories, history.last.categories);
  if (most && static_cast<double>(most->second) * 10 > jump) {
    alert.evidence.push_back("Since the previous sample, category " + most->first +
                             " grew most, by " + sample::bytes_text(most->second));
  } else if (!history.last.categories.empty()) {
    alert.evidence.push_back(
        "Memory live at the samples hardly changed: it was allocated and freed within " +
        options.step + "s");
  }
  alert.steps = {{"Examine the batch of " + options.step + " " + std::to_string(iteration) +
                  ": its size, the length of its samples, its values."}};
}

}  // namespace plimsoll::alerts
