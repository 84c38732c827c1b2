// What fills the peak: explanations compete. Each names the bytes that it explains; the best comes
// first, and another only if it explains bytes of note that those before it do not.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "analysis/findings/peak.h"
#include "analysis/findings/rules.h"
#include "analysis/findings/text.h"

namespace plimsoll::analysis::findings {
namespace {

constexpr std::array kExplanations{
    explain_graph, explain_gradients, explain_copies,    explain_batches,   explain_outside,
    explain_line,  explain_layer,     explain_parameter, explain_optimizer, explain_activations};
// What the explanations before it leave to another: less than this is no second story.
constexpr double kShareOfPeak = 0.15;

double worth(const Explanation& explanation) {
  return static_cast<double>(explanation.bytes) * explanation.weight;
}

void append_best(Peak& peak, Findings& findings) {
  Explanations explanations;
  for (const auto& explain : kExplanations) explain(peak, explanations);
  std::ranges::stable_sort(explanations, std::ranges::greater{}, worth);
  std::vector<bool> is_explained(peak.live().size());
  bool is_first = true;
  for (Explanation& explanation : explanations) {
    std::uint64_t more = 0;
    for (const std::uint32_t part : explanation.parts) {
      if (!is_explained[part]) more += peak.live()[part].size_bytes;
      is_explained[part] = true;
    }
    const bool is_of_note = more >= kLeastPeakBytes && more * 2 > explanation.bytes &&
                            is_at_least(more, kShareOfPeak, peak.bytes());
    if (is_first || is_of_note) findings.push_back(std::move(explanation.finding));
    is_first = false;
  }
}

}  // namespace

Findings what_fills_the_peak(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    if (auto peak = Peak::of(facts, device)) append_best(*peak, findings);
  }
  return findings;
}

}  // namespace plimsoll::analysis::findings
