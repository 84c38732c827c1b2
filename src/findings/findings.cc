#include "findings/findings.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "findings/in_cpp.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/live_set.h"
#include "report/devices.h"

namespace plimsoll::findings {
namespace {

constexpr std::array<const char*, 11> kRunsAfter{"timeline", "composition",   "sites", "device",
                                                 "growth",   "fragmentation", "oom",   "saved",
                                                 "layers",   "steps",         "uses"};

struct Rule {
  Findings (*of_file)(const Facts&) = nullptr;
  void (*of_device)(const Facts&, const DeviceFacts&, Findings&) = nullptr;
};
constexpr std::array kRules{
#define RULE(function) Rule{.of_file = function},
#define DEVICE_RULE(function) Rule{.of_device = function},
#include "report/findings.def"
};

// Native recordings of Python programs have its version and its frames.
bool is_of_cpp_program(const analysis::PassContext& context) {
  const model::Trace& trace = context.trace;
  if (context.report.source.format != "plimsoll" || !trace.program.python.empty()) return false;
  for (std::uint32_t row = 0; row < trace.stacks.frame_count(); ++row) {
    const model::Frame& frame = trace.stacks.frame(model::FrameId{row});
    if (trace.strings[frame.file].ends_with(".py")) return false;
  }
  return true;
}

class FindingsPass final : public analysis::Pass {
 public:
  const char* name() const override { return "findings"; }
  std::span<const char* const> runs_after() const override { return kRunsAfter; }
  analysis::OptionSet uses() const override { return analysis::OptionSet::kDevice; }
  void clear(report::Report& report) const override {
    report.findings.clear();
    report.near_misses.clear();
  }
  Status run(analysis::PassContext& context) const override {
    PLIMSOLL_CHECK(context.report.devices.size() == context.trace.devices.size());
    const AllocatorConf conf = allocator_conf(context.trace);
    Facts facts{context.trace,   context.lines, context.report,
                context.options, conf,          accelerator_names(context.trace, conf)};
    Findings found;
    const std::vector<DeviceFacts> devices = devices_of(facts);
    for (const Rule& rule : kRules) {
      if (rule.of_file) std::ranges::move(rule.of_file(facts), std::back_inserter(found));
      for (const DeviceFacts& device : devices) {
        if (rule.of_device) rule.of_device(facts, device, found);
      }
    }
    if (is_of_cpp_program(context)) {
      std::ranges::for_each(found, put_into_cpp);
      for (report::HolderRow& row : context.report.tables.holders) row.edit = in_cpp(row.edit);
    }
    std::ranges::stable_sort(found, std::ranges::greater{}, &report::Finding::severity);
    context.report.findings = std::move(found);
    context.report.near_misses = near_misses(facts);
    return {};
  }
};

}  // namespace

std::vector<DeviceFacts> devices_of(const Facts& facts) {
  std::vector<DeviceFacts> devices;
  for (std::size_t d = 0; d < facts.trace.devices.size(); ++d) {
    const model::DeviceTrace& device = facts.trace.devices[d];
    if (facts.options.device && *facts.options.device != device.device) continue;
    devices.push_back(DeviceFacts{device, facts.report.devices[d], to_string(device.device)});
  }
  return devices;
}

bool is_peak_judged(const Facts& facts, const DeviceFacts& device) {
  if (device.report.has_unknown_peak()) return false;
  return facts.options.device || !report::is_minor(facts.report, device.report);
}

const report::PointInTime* peak_point(const Facts& facts, const DeviceFacts& device) {
  const auto& points = facts.report.tables.points;
  const auto point = std::ranges::find(points, device.report.device, &report::PointInTime::device);
  const bool is_peak = point != points.end() && point->name == "peak";
  return is_peak ? &*point : nullptr;
}

LiveBytes live_bytes(const Facts& facts, const DeviceFacts& device, std::uint64_t event) {
  LiveBytes live;
  const model::Trace& trace = facts.trace;
  for (const std::uint32_t row :
       live_set(device.trace, model::default_liveness(device.trace), std::int64_t(event))) {
    const std::string_view category = trace.strings[trace.category(device.trace, row)];
    live[category == model::kBuffer ? model::kParameter : category] +=
        trace.lifetime_bytes(device.trace, row);
  }
  return live;
}

std::string kinds_text(const LiveBytes& live) {
  constexpr std::array kKinds{std::pair{model::kParameter, "parameters"},
                              std::pair{model::kGradient, "gradients"},
                              std::pair{model::kOptimizerState, "optimizer state"},
                              std::pair{model::kActivation, "activations"},
                              std::pair{model::kActivationGradient, "gradients of activations"}};
  std::vector<std::pair<const char*, std::uint64_t>> kinds;
  for (const auto& [category, kind] : kKinds) {
    const auto found = live.find(category);
    if (found != live.end() && found->second > 0) kinds.emplace_back(kind, found->second);
  }
  std::string text;
  for (const auto& [kind, bytes] : by_value(kinds)) {
    text += (text.empty() ? "" : ", ") + std::string(kind) + " " + bytes_text(bytes);
  }
  return text;
}

std::unique_ptr<analysis::Pass> make() { return std::make_unique<FindingsPass>(); }

}  // namespace plimsoll::findings
