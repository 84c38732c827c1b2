// one_device_dominates: one of several devices that do the same work uses far more memory than the
// others.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::findings {
namespace {

// Stages of a pipeline differ by less: the first keeps more activations, the last has the logits.
constexpr double kTimesTheNext = 2.0;
constexpr std::uint64_t kLeastExcess = std::uint64_t{1} << 30;
// A context, a seed or one small tensor does not count as work.
constexpr double kLeastShareOfLargest = 0.02;
// Lines that also run on other devices must have allocated at least this share of the largest
// device's memory; otherwise its work is different.
constexpr double kShareOfSharedLines = 0.25;
constexpr double kTimesLarger = 4.0;
constexpr std::size_t kPlacesNamed = 3;

// A device's memory at its peak, by line and category.
using LineOfCategory = std::pair<std::uint32_t, std::string_view>;

struct Used {
  const DeviceFacts* device;
  std::uint64_t peak_bytes;
  std::map<LineOfCategory, std::uint64_t> places;
  std::map<std::uint32_t, std::uint64_t> largest_of_line;  // over the whole history
};

Used used_of(const Facts& facts, const DeviceFacts& device) {
  const model::Trace& trace = facts.trace;
  const auto& peak = device.report.live_totals();
  Used used{&device, static_cast<std::uint64_t>(peak.peak_bytes), {}, {}};
  const auto event =
      peak.peak_event ? static_cast<std::int64_t>(*peak.peak_event) : model::kBeforeFirst;
  const auto& lifetimes = device.trace.lifetimes;
  for (const std::uint32_t row :
       live_set(device.trace, model::default_liveness(device.trace), event)) {
    const model::StackId stack =
        lifetimes.alloc[row] != model::kNone || lifetimes.block[row] != model::kNone
            ? trace.stack(device.trace, row)
            : model::kNoStack;
    const std::string_view category = trace.strings[trace.category(device.trace, row)];
    used.places[{facts.lines.line(stack).value, category}] +=
        trace.lifetime_bytes(device.trace, row);
  }
  for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const model::StackId stack = trace.stack(device.trace, row);
    std::uint64_t& largest = used.largest_of_line[facts.lines.line(stack).value];
    largest = std::max(largest, trace.lifetime_bytes(device.trace, row));
  }
  return used;
}

std::uint64_t peak_bytes(const DeviceFacts* device) {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(device->report.live_totals().peak_bytes, 0));
}

// The devices in order of their peaks, largest first, without those that do no work. Empty if the
// first is not far above the second.
std::vector<Used> used_devices(const Facts& facts, const std::vector<DeviceFacts>& devices) {
  std::vector<const DeviceFacts*> by_peak;
  for (const DeviceFacts& device : devices) {
    if (device.trace.device.ordinal >= 0 && peak_bytes(&device) > 0) by_peak.push_back(&device);
  }
  std::ranges::stable_sort(by_peak, std::ranges::greater{}, peak_bytes);
  std::erase_if(by_peak, [most = by_peak.empty() ? 0 : peak_bytes(by_peak.front())](auto* each) {
    return !is_at_least(peak_bytes(each), kLeastShareOfLargest, most);
  });
  if (by_peak.size() < 2) return {};
  const std::uint64_t first = peak_bytes(by_peak[0]), next = peak_bytes(by_peak[1]);
  if (first - next < kLeastExcess || !is_at_least(first, kTimesTheNext, next)) return {};
  std::vector<Used> used;
  for (const DeviceFacts* device : by_peak) used.push_back(used_of(facts, *device));
  return used;
}

bool is_line(const Facts& facts, std::uint32_t line) {
  return is_named(facts.lines.label(model::LineId{line}));
}

// Bytes of the first device from lines that also run on other devices; all bytes if no line is
// known.
std::uint64_t bytes_of_shared_lines(const Facts& facts, const std::vector<Used>& used) {
  std::uint64_t shared = 0;
  bool is_any_known = false;
  for (const auto& [place, bytes] : used.front().places) {
    const std::uint32_t line = place.first;
    if (!is_line(facts, line)) continue;
    is_any_known = true;
    const bool is_shared = std::any_of(used.begin() + 1, used.end(), [line](const Used& other) {
      return other.largest_of_line.contains(line);
    });
    if (is_shared) shared += bytes;
  }
  return is_any_known ? shared : used.front().peak_bytes;
}

struct Extra {
  LineOfCategory place;
  std::uint64_t bytes;
};

// Groups that are larger on the first device than on any other, largest first.
std::vector<Extra> extras_of(const std::vector<Used>& used) {
  std::vector<Extra> extras;
  for (const auto& [place, bytes] : used.front().places) {
    std::uint64_t most = 0;
    for (std::size_t i = 1; i < used.size(); ++i) {
      const auto found = used[i].places.find(place);
      if (found != used[i].places.end()) most = std::max(most, found->second);
    }
    if (bytes > most) extras.push_back({place, bytes - most});
  }
  std::ranges::stable_sort(extras, std::ranges::greater{}, &Extra::bytes);
  return extras;
}

// "activation 2.0 GiB at a.py:1 (f)".
std::string extra_text(const Facts& facts, const Extra& extra) {
  const auto& [line, category] = extra.place;
  const bool is_known = !category.empty() && category != model::kUnknownCategory;
  return (is_known ? std::string(category) + " " : std::string()) + bytes_text(extra.bytes) +
         " at " + facts.lines.label(model::LineId{line});
}

void add_extras(const Facts& facts, const std::vector<Used>& used, const std::vector<Extra>& extras,
                report::Finding& finding) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kPlacesNamed, extras.size()); ++i) {
    text += (i == 0 ? "" : "; ") + extra_text(facts, extras[i]);
  }
  if (!text.empty()) {
    finding.evidence.push_back("What " + used.front().device->name +
                               " holds more of than any other at its peak: " + text + ".");
  }
}

// A line whose allocations are far larger on the first device.
std::string line_of_larger_tensors(const Facts& facts, const std::vector<Used>& used,
                                   const std::vector<Extra>& extras, report::Finding& finding) {
  for (const Extra& extra : extras) {
    const std::uint32_t line = extra.place.first;
    const auto here = used.front().largest_of_line.find(line);
    if (!is_line(facts, line) || here == used.front().largest_of_line.end()) continue;
    const Used* next = nullptr;
    std::uint64_t most = 0;
    for (std::size_t i = 1; i < used.size(); ++i) {
      const auto there = used[i].largest_of_line.find(line);
      if (there == used[i].largest_of_line.end() || there->second <= most) continue;
      next = &used[i];
      most = there->second;
    }
    if (next == nullptr || !is_at_least(here->second, kTimesLarger, most)) continue;
    std::string label = facts.lines.label(model::LineId{line});
    finding.evidence.push_back("The largest tensor of " + label + " is " +
                               bytes_text(here->second) + " on " + used.front().device->name +
                               " and " + bytes_text(most) + " on " + next->device->name + ": " +
                               base::format_count(here->second / most) + " times as large.");
    return label;
  }
  return {};
}

Steps steps_for(const Facts& facts, const std::vector<Used>& used, const std::vector<Extra>& extras,
                const std::string& line) {
  const std::string& name = used.front().device->name;
  if (facts.of_trace.stacks.has_any(evidence::StackFlag::kDataParallel)) {
    return {{"Replace torch.nn.DataParallel, which gathers outputs and gradients on one device, by "
             "one process per device with torch.nn.parallel.DistributedDataParallel."},
            {"Let the module compute its loss, so that only the losses are gathered."}};
  }
  std::uint64_t of_model = 0, all = 0;
  for (const Extra& extra : extras) {
    const std::string_view category = extra.place.second;
    const bool is_model = category == model::kParameter || category == model::kGradient ||
                          category == model::kOptimizerState || category == model::kBuffer;
    all += extra.bytes;
    if (is_model) of_model += extra.bytes;
  }
  if (facts.of_trace.stacks.has_any(evidence::StackFlag::kDeviceMap)) {
    return {
        {"Spread the layers evenly: device_map=\"balanced\", or max_memory with a lower limit "
         "for " +
         name + "."}};
  }
  if (all > 0 && of_model * 2 > all) {
    return {{"Move layers of the model from " + name + " to the other devices."},
            {"Shard parameters and optimizer state (FSDP)."}};
  }
  const std::string where = !line.empty() ? line
                            : extras.empty() || !is_line(facts, extras.front().place.first)
                                ? std::string()
                                : facts.lines.label(model::LineId{extras.front().place.first});
  if (where.empty()) return {{"Give each device the same share of the batch and of the model."}};
  return {{"Give each device the same share of what " + where +
           " works on: split its input over the devices, and do not gather outputs on " + name +
           "."}};
}

std::string others_text(const std::vector<Used>& used) {
  std::string text;
  for (std::size_t i = 1; i < used.size(); ++i) {
    text += (i == 1 ? "" : ", ") + used[i].device->name + " " + bytes_text(used[i].peak_bytes);
  }
  return text;
}

void add_idle(const std::vector<DeviceFacts>& devices, const std::vector<Used>& used,
              report::Finding& finding) {
  for (const DeviceFacts& device : devices) {
    if (device.trace.device.ordinal < 0) continue;
    const bool is_used = std::ranges::any_of(
        used, [&](const Used& each) { return each.device->name == device.name; });
    if (is_used) continue;
    const auto bytes = static_cast<std::uint64_t>(
        std::max<std::int64_t>(device.report.live_totals().peak_bytes, 0));
    finding.evidence.push_back(device.name + " holds " + bytes_text(bytes) + " at most.");
  }
}

}  // namespace

Findings one_device_dominates(const Facts& facts) {
  if (facts.options.device) return {};
  const std::vector<DeviceFacts> devices = devices_of(facts);
  const std::vector<Used> used = used_devices(facts, devices);
  if (used.empty()) return {};
  const Used& first = used[0];
  const std::uint64_t shared = bytes_of_shared_lines(facts, used);
  if (!is_at_least(shared, kShareOfSharedLines, first.peak_bytes)) return {};
  report::Finding finding;
  finding.id = "one_device_dominates";
  finding.title = first.device->name + " holds " + bytes_text(first.peak_bytes) +
                  " at its peak, far more than the others: " + others_text(used);
  const std::vector<Extra> extras = extras_of(used);
  add_extras(facts, used, extras, finding);
  const std::string line = line_of_larger_tensors(facts, used, extras, finding);
  add_idle(devices, used, finding);
  finding.steps = steps_for(facts, used, extras, line);
  return {std::move(finding)};
}

}  // namespace plimsoll::findings
