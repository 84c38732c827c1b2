// optimizer_state_dominates: the optimizer's own tensors are the largest part of the peak.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/findings/live.h"
#include "analysis/findings/rules.h"
#include "analysis/findings/text.h"
#include "base/units.h"
#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

// Adam's state is half of parameters, gradients and state together; with activations beside them it
// falls below this, and then it is not the first thing to change.
constexpr double kShareOfPeak = 0.4;
constexpr std::uint64_t kLeastBytes = std::uint64_t{16} << 20;
constexpr std::size_t kKindsNamed = 3;

struct State {
  std::uint64_t bytes = 0;
  std::uint64_t float32_bytes = 0;
  std::map<std::string_view, std::uint64_t> by_kind;  // "exp_avg", the end of the tensor's name
};

State state_at(const Facts& facts, const DeviceFacts& device, const report::MomentRow& peak) {
  State state;
  const model::Trace& trace = facts.trace;
  for_each_live(facts, device, peak, model::kOptimizerState,
                [&](std::uint32_t born, std::uint64_t size) {
                  const auto tensor = trace.events.tensor[device.trace.first_event + born];
                  const model::Tensor& told = trace.tensors[tensor.index()];
                  state.bytes += size;
                  if (trace.strings[told.dtype] == "float32") state.float32_bytes += size;
                  const std::string_view name = trace.strings[told.name];
                  const std::size_t dot = name.rfind('.');
                  if (dot != std::string_view::npos) state.by_kind[name.substr(dot + 1)] += size;
                });
  return state;
}

std::string kinds_text(const State& state) {
  std::vector<std::pair<std::string_view, std::uint64_t>> kinds(state.by_kind.begin(),
                                                                state.by_kind.end());
  std::ranges::stable_sort(kinds, std::ranges::greater{},
                           [](const auto& kind) { return kind.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kKindsNamed, kinds.size()); ++i) {
    text += (text.empty() ? "" : ", ") + std::string(kinds[i].first) + " " +
            bytes_text(kinds[i].second);
  }
  return text;
}

}  // namespace

Findings optimizer_state_dominates(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const report::MomentRow* peak = own_peak(facts, device);
    if (peak == nullptr) continue;
    const State state = state_at(facts, device, *peak);
    if (state.bytes < kLeastBytes || !is_at_least(state.bytes, kShareOfPeak, peak->live_bytes)) {
      continue;
    }
    report::Finding finding;
    finding.id = "optimizer_state_dominates";
    finding.title = "Optimizer state is " +
                    base::format_percent(static_cast<double>(state.bytes) /
                                         static_cast<double>(peak->live_bytes)) +
                    " of the peak on " + device.name + ": " + bytes_text(state.bytes) + " of " +
                    bytes_text(peak->live_bytes);
    if (!state.by_kind.empty()) finding.evidence.push_back("It is " + kinds_text(state) + ".");
    finding.next_step =
        "Shard it over your devices (FSDP, ZeRO), or take an optimizer that keeps less (Adafactor, "
        "SGD).";
    if (state.float32_bytes > 0) {
      finding.evidence.push_back(bytes_text(state.float32_bytes) + " of it are float32.");
      finding.saving_bytes = state.float32_bytes / 4 * 3;
      finding.next_step = "Keep it in 8 bits (AdamW8bit of bitsandbytes or torchao): that saves " +
                          bytes_text(finding.saving_bytes) +
                          ". Or shard it over your devices (FSDP, ZeRO).";
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace plimsoll::analysis::findings
