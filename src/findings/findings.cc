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
#include "findings/rules.h"
#include "report/devices.h"

namespace plimsoll::findings {
namespace {

constexpr std::array<const char*, 11> kRunsAfter{"timeline", "composition",   "sites", "device",
                                                 "growth",   "fragmentation", "oom",   "saved",
                                                 "layers",   "steps",         "uses"};

constexpr std::array kRules{
#define RULE(function) function,
#include "report/findings.def"
};

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
    Facts facts{context.trace,
                context.lines,
                context.report,
                context.options,
                conf,
                {},
                accelerator_names(context.trace, conf)};
    for (const model::DeviceTrace& device : context.trace.devices) {
      facts.traffic.push_back(traffic_of(context.trace, context.lines, facts.of_trace, device));
    }
    Findings found;
    for (const auto& rule : kRules) {
      Findings more = rule(facts);
      std::ranges::move(more, std::back_inserter(found));
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
    devices.push_back(
        DeviceFacts{device, facts.report.devices[d], facts.traffic[d], to_string(device.device)});
  }
  return devices;
}

bool is_peak_judged(const Facts& facts, const DeviceFacts& device) {
  if (device.report.has_unknown_peak()) return false;
  return facts.options.device || !report::is_minor(facts.report, device.report);
}

std::unique_ptr<analysis::Pass> make() { return std::make_unique<FindingsPass>(); }

}  // namespace plimsoll::findings
