#include "analysis/findings/findings.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/findings/rules.h"
#include "base/check.h"
#include "report/devices.h"

namespace plimsoll::analysis::findings {
namespace {

constexpr std::array<const char*, 11> kRunsAfter{"timeline", "composition",   "sites", "device",
                                                 "growth",   "fragmentation", "oom",   "saved",
                                                 "layers",   "steps",         "uses"};

// In order of precedence within a severity, highest first.
constexpr std::array kRules{recording_incomplete,
                            out_of_memory,
                            recording_was_empty,
                            no_memory_events,
                            memory_growth,
                            non_pytorch_memory,
                            memory_outside_tensors,
                            stranded_memory,
                            allocator_settings_conflict,
                            history_truncated,
                            one_device_dominates,
                            model_growth,
                            what_fills_the_peak,
                            repeated_large_allocation,
                            segment_churn,
                            churn,
                            unknown_memory};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

struct AcceleratorNames {
  model::DeviceType type;
  std::string_view module;   // replaces "torch.cuda."
  std::string_view tool;     // lists processes and devices
  std::string_view visible;  // the environment variable that selects devices
};
constexpr auto kAcceleratorNames = std::to_array<AcceleratorNames>({
    {model::DeviceType::kCuda, "torch.cuda.", "nvidia-smi", "CUDA_VISIBLE_DEVICES"},
    {model::DeviceType::kHip, "torch.cuda.", "rocm-smi", "HIP_VISIBLE_DEVICES"},
    {model::DeviceType::kXpu, "torch.xpu.", "xpu-smi", "ZE_AFFINITY_MASK"},
    {model::DeviceType::kNpu, "torch.npu.", "npu-smi", "ASCEND_RT_VISIBLE_DEVICES"},
    {model::DeviceType::kHpu, "torch.hpu.", "hl-smi", "HABANA_VISIBLE_DEVICES"},
    {model::DeviceType::kMtia, "torch.mtia.", "the device's tools", "its environment variable"},
    {model::DeviceType::kMps, "torch.mps.", "Activity Monitor", "its environment variable"},
    {model::DeviceType::kOther, "torch.accelerator.", "the device's tools",
     "its environment variable"},
});

// Replaces CUDA's names, which the rules use, by those of the device's accelerator.
void use_names_of_accelerator(report::Finding& finding, const Facts& facts) {
  const auto* const names =
      std::ranges::find(kAcceleratorNames, accelerator_of(facts.trace), &AcceleratorNames::type);
  PLIMSOLL_CHECK(names != kAcceleratorNames.end());
  std::vector<std::string*> texts{&finding.title, &finding.next_step};
  for (std::string& sentence : finding.evidence) texts.push_back(&sentence);
  for (std::string* text : texts) {
    replace_all(*text, "PYTORCH_CUDA_ALLOC_CONF", facts.conf.variable);
    if (names->type == model::DeviceType::kCuda) continue;
    replace_all(*text, "torch.cuda.", names->module);
    replace_all(*text, "nvidia-smi", names->tool);
    replace_all(*text, "CUDA_VISIBLE_DEVICES", names->visible);
  }
}

class FindingsPass final : public Pass {
 public:
  const char* name() const override { return "findings"; }
  std::span<const char* const> runs_after() const override { return kRunsAfter; }
  OptionSet uses() const override { return OptionSet::kDevice; }
  void clear(report::Report& report) const override {
    report.findings.clear();
    report.near_misses.clear();
  }
  Status run(PassContext& context) const override {
    PLIMSOLL_CHECK(context.report.devices.size() == context.trace.devices.size());
    Facts facts{context.trace,
                context.lines,
                context.report,
                context.options,
                allocator_conf(context.trace),
                {}};
    for (const model::DeviceTrace& device : context.trace.devices) {
      facts.traffic.push_back(traffic_of(context.trace, context.lines, device));
    }
    Findings found;
    for (const auto& rule : kRules) {
      Findings more = rule(facts);
      std::ranges::move(more, std::back_inserter(found));
    }
    for (report::Finding& finding : found) use_names_of_accelerator(finding, facts);
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

std::unique_ptr<Pass> make() { return std::make_unique<FindingsPass>(); }

}  // namespace plimsoll::analysis::findings
