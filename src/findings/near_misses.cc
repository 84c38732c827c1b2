// Near misses: the figures closest to a finding, for rules with a single threshold.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/growth_rule.h"
#include "base/units.h"
#include "findings/peak/peak.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

using report::NearMiss;

// Smaller figures are not worth showing.
constexpr double kLeastCloseness = 0.1;

void add(const DeviceFacts& device, const char* id, std::string figure, double value,
         double threshold, const std::string& threshold_text, std::vector<NearMiss>& out) {
  if (value <= 0 || value >= threshold) return;
  out.push_back(NearMiss{device.report.device, id,
                         std::move(figure) + " (a finding at " + threshold_text + ")",
                         value / threshold});
}

void add_of_peak(const Peak& peak, std::vector<NearMiss>& out) {
  LiveBytes live = live_bytes(peak.facts(), peak.device(), peak.event());
  const auto add_share = [&](const char* id, const char* what, std::uint64_t bytes, double least) {
    add(peak.device(), id,
        std::string(what) + " " + percent_text(bytes, peak.bytes()) + " of the peak",
        static_cast<double>(bytes) / static_cast<double>(peak.bytes()), least,
        base::format_percent(least), out);
  };
  add_share("activations_dominate", "activations and their gradients are",
            live[model::kActivation] + live[model::kActivationGradient], kShareOfActivations);
  add_share("optimizer_state_dominates", "optimizer state is", live[model::kOptimizerState],
            kShareOfState);
}

// The line that grows most, certain or not: the rule reports both.
void add_growth(const Facts& facts, const DeviceFacts& device, std::vector<NearMiss>& out) {
  const report::GrowthRow* most = nullptr;
  for (const report::GrowthRow& row : facts.report.tables.growth) {
    if (row.device != device.report.device) continue;
    if (most == nullptr || row.bytes_per_step > most->bytes_per_step) most = &row;
  }
  if (most == nullptr) return;
  add(device, "memory_growth", most->line + " leaves " + rate_text(most->bytes_per_step),
      most->bytes_per_step, base::kLeastGrowthPerStep, rate_text(base::kLeastGrowthPerStep), out);
}

}  // namespace

std::vector<NearMiss> near_misses(const Facts& facts) {
  std::vector<NearMiss> all;
  for (const DeviceFacts& device : devices_of(facts)) {
    std::vector<NearMiss> near;
    if (const auto peak = Peak::of(facts, device); peak && is_peak_judged(facts, device)) {
      add_of_peak(*peak, near);
    }
    add_growth(facts, device, near);
    if (auto stranded = near_stranded(device)) near.push_back(std::move(*stranded));
    std::erase_if(near, [](const NearMiss& each) { return each.closeness < kLeastCloseness; });
    std::ranges::stable_sort(near, std::ranges::greater{}, &NearMiss::closeness);
    std::ranges::move(near, std::back_inserter(all));
  }
  return all;
}

}  // namespace plimsoll::findings
