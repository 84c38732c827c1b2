// one_device_dominates: one of several devices that do the same work uses far more memory than the
// others.
#include <algorithm>
#include <map>
#include <set>
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

// A device's memory at its peak, by line and category.
using Places = std::map<std::pair<std::uint32_t, std::string_view>, std::uint64_t>;

struct Used {
  const DeviceFacts* device;
  std::uint64_t peak_bytes;
  Places places = {};
  std::set<std::uint32_t> lines = {};  // over the whole history
};

void add_places(const Facts& facts, Used& used) {
  const model::Trace& trace = facts.trace;
  const model::DeviceTrace& device = used.device->trace;
  const auto peak = used.device->report.live_totals().peak_event;
  const auto event = peak ? static_cast<std::int64_t>(*peak) : model::kBeforeFirst;
  const model::Lifetimes& lifetimes = device.lifetimes;
  for (const std::uint32_t row : live_set(device, model::default_liveness(device), event)) {
    const bool has_stack =
        lifetimes.alloc[row] != model::kNone || lifetimes.block[row] != model::kNone;
    const model::StackId stack = has_stack ? trace.stack(device, row) : model::kNoStack;
    used.places[{facts.lines.line(stack).value, trace.strings[trace.category(device, row)]}] +=
        trace.lifetime_bytes(device, row);
  }
  for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    used.lines.insert(facts.lines.line(trace.stack(device, row)).value);
  }
}

// The devices in order of their peaks, largest first, without those that do no work. Empty if the
// first is not far above the second.
std::vector<Used> used_devices(const Facts& facts, const std::vector<DeviceFacts>& devices) {
  std::vector<Used> used;
  for (const DeviceFacts& device : devices) {
    const std::uint64_t peak = not_negative(device.report.live_totals().peak_bytes);
    if (device.trace.device.ordinal >= 0 && peak > 0) used.push_back({&device, peak});
  }
  std::ranges::stable_sort(used, std::ranges::greater{}, &Used::peak_bytes);
  std::erase_if(used, [most = used.empty() ? 0 : used[0].peak_bytes](const Used& each) {
    return !is_at_least(each.peak_bytes, kLeastShareOfLargest, most);
  });
  if (used.size() < 2) return {};
  const std::uint64_t first = used[0].peak_bytes, next = used[1].peak_bytes;
  if (first - next < kLeastExcess || !is_at_least(first, kTimesTheNext, next)) return {};
  for (Used& each : used) add_places(facts, each);
  return used;
}

bool is_line(const Facts& facts, std::uint32_t line) {
  return is_named(facts.lines.label(model::LineId{line}));
}

// Whether the first device does what the others do: lines that run there too have made a good part
// of its memory, or no line is known.
bool is_same_work(const Facts& facts, const std::vector<Used>& used) {
  std::uint64_t shared = 0;
  bool is_any_known = false;
  for (const auto& [place, bytes] : used[0].places) {
    if (!is_line(facts, place.first)) continue;
    is_any_known = true;
    const bool is_shared = std::any_of(used.begin() + 1, used.end(), [&](const Used& other) {
      return other.lines.contains(place.first);
    });
    if (is_shared) shared += bytes;
  }
  return !is_any_known || is_at_least(shared, kShareOfSharedLines, used[0].peak_bytes);
}

struct Extra {
  std::uint32_t line;
  std::string_view category;
  std::uint64_t bytes;
};

// Groups that are larger on the first device than on any other, largest first.
std::vector<Extra> extras_of(const std::vector<Used>& used) {
  std::vector<Extra> extras;
  for (const auto& [place, bytes] : used[0].places) {
    std::uint64_t most = 0;
    for (std::size_t i = 1; i < used.size(); ++i) {
      const auto found = used[i].places.find(place);
      if (found != used[i].places.end()) most = std::max(most, found->second);
    }
    if (bytes > most) extras.push_back({place.first, place.second, bytes - most});
  }
  std::ranges::stable_sort(extras, std::ranges::greater{}, &Extra::bytes);
  return extras;
}

// "activation 2.0 GiB at a.py:1 (f)".
std::string extra_text(const Facts& facts, const Extra& extra) {
  const bool is_known = !extra.category.empty() && extra.category != model::kUnknownCategory;
  return (is_known ? std::string(extra.category) + " " : std::string()) + bytes_text(extra.bytes) +
         " at " + facts.lines.label(model::LineId{extra.line});
}

Steps steps_for(const Facts& facts, const std::string& name, const std::vector<Extra>& extras) {
  if (facts.of_trace.stacks.has_any(evidence::StackFlag::kDataParallel)) {
    return {{"Replace torch.nn.DataParallel, which gathers outputs and gradients on one device, by "
             "one process per device with torch.nn.parallel.DistributedDataParallel."},
            {"Let the module compute its loss, so that only the losses are gathered."}};
  }
  if (facts.of_trace.stacks.has_any(evidence::StackFlag::kDeviceMap)) {
    return {
        {"Spread the layers evenly: device_map=\"balanced\", or max_memory with a lower limit "
         "for " +
         name + "."}};
  }
  std::uint64_t of_model = 0, all = 0;
  for (const Extra& extra : extras) {
    const bool is_model =
        extra.category == model::kParameter || extra.category == model::kGradient ||
        extra.category == model::kOptimizerState || extra.category == model::kBuffer;
    all += extra.bytes;
    if (is_model) of_model += extra.bytes;
  }
  if (of_model * 2 > all) {
    return {{"Move layers of the model from " + name + " to the other devices."},
            {"Shard parameters and optimizer state (FSDP)."}};
  }
  if (extras.empty() || !is_line(facts, extras[0].line)) {
    return {{"Give each device the same share of the batch and of the model."}};
  }
  return {{"Give each device the same share of what " +
           facts.lines.label(model::LineId{extras[0].line}) +
           " works on: split its input over the devices, and do not gather outputs on " + name +
           "."}};
}

}  // namespace

Findings one_device_dominates(const Facts& facts) {
  if (facts.options.device) return {};
  const std::vector<DeviceFacts> devices = devices_of(facts);
  const std::vector<Used> used = used_devices(facts, devices);
  if (used.empty() || !is_same_work(facts, used)) return {};
  const std::string& name = used[0].device->name;
  const std::vector<Extra> extras = extras_of(used);
  std::string others, places;
  for (std::size_t i = 1; i < used.size(); ++i) {
    others += (i == 1 ? "" : ", ") + used[i].device->name + " " + bytes_text(used[i].peak_bytes);
  }
  for (std::size_t i = 0; i < std::min(kNamed, extras.size()); ++i) {
    places += (i == 0 ? "" : "; ") + extra_text(facts, extras[i]);
  }
  if (!places.empty()) {
    places = "What " + name + " holds more of than any other at its peak: " + places + ".";
  }
  return {{"one_device_dominates", report::FindingSeverity::kInfo,
           name + " holds " + bytes_text(used[0].peak_bytes) +
               " at its peak, far more than the others: " + others,
           places.empty() ? std::vector<std::string>{} : std::vector{places},
           steps_for(facts, name, extras)}};
}

}  // namespace plimsoll::findings
