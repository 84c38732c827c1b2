// Explains what fills the peak. Several explanations compete: each lists the bytes that it
// explains. The best comes first, and another follows only if it explains substantial bytes that
// earlier ones do not.
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "findings/kept/held_by.h"
#include "findings/kept/never_used_again.h"
#include "findings/live_by_kind.h"
#include "findings/peak/peak.h"
#include "findings/rules.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

enum Source : std::uint8_t { kNative, kSnapshot, kBoth };

struct PeakRule {
  void (*explain)(Peak&, Explanations&);
  Source source;
};
constexpr std::array kRules{
#define PEAK_RULE(function, source) PeakRule{function, source},
#include "report/findings.def"
};

// How much the peak falls by the first step; for a mistake whose step has no known saving, without
// the parts.
std::uint64_t saving_of(const Peak& peak, const Explanation& explanation) {
  const std::uint64_t stated = explanation.finding.saving_bytes();
  if (stated > 0 || explanation.kind == Kind::kFact) return stated;
  std::vector<std::uint32_t> rows;
  for (const std::uint32_t part : explanation.parts) rows.push_back(peak.live()[part].lifetime);
  return peak.replay().never_made(rows);
}

// A mistake before a fact, then the larger saving; of about equal savings, the smaller set. A
// mistake that costs little does not come before what fills the peak.
void order(const Peak& peak, Explanations& explanations) {
  constexpr double kAboutEqual = 0.98;
  std::vector<std::pair<std::uint64_t, Explanation>> left;
  for (Explanation& each : explanations) {
    const std::uint64_t saving = saving_of(peak, each);
    if (each.kind == Kind::kCause) {
      each.kind = is_mostly_unused(peak, each) ? Kind::kMistake : Kind::kFact;
    }
    each.finding.is_fact = each.kind == Kind::kFact;
    if (!is_at_least(saving, kLeastShareOfMistake, peak.bytes())) each.kind = Kind::kFact;
    left.emplace_back(saving, std::move(each));
  }
  std::ranges::stable_sort(left, [](const auto& a, const auto& b) {
    if (a.second.kind != b.second.kind) return a.second.kind < b.second.kind;
    return a.first > b.first;
  });
  explanations.clear();
  while (!left.empty()) {
    auto best = left.begin();
    for (auto each = left.begin(); each != left.end(); ++each) {
      const bool is_close = each->second.kind == left.front().second.kind &&
                            is_at_least(each->first, kAboutEqual, left.front().first);
      if (is_close && each->second.bytes < best->second.bytes) best = each;
    }
    explanations.push_back(std::move(best->second));
    left.erase(best);
  }
}

// States how reliable the categories are.
std::string confidence_text(const Peak& peak, const Explanation& explanation) {
  std::uint64_t by_size = 0;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (allocation.born == model::kNone) by_size += allocation.size_bytes;
  }
  if (by_size == 0) return "Inferred from stacks and lifetimes: a snapshot records no categories";
  return "Inferred from stacks and lifetimes, for " + bytes_text(by_size) +
         " from before the history from sizes alone: a snapshot records no categories";
}

// States the composition of the whole peak.
std::string whole_text(const Peak& peak) {
  const LiveByKind live =
      live_by_kind(peak.facts(), peak.device(), static_cast<std::int64_t>(peak.event()));
  return "The peak of " + bytes_text(peak.bytes()) + " contains " + kinds_text(live) + ".";
}

void append_best(Peak& peak, Findings& findings) {
  Explanations explanations;
  for (const PeakRule& rule : kRules) {
    const bool is_for_it = rule.source == (peak.is_inferred() ? kSnapshot : kNative);
    if (is_for_it || rule.source == kBoth) rule.explain(peak, explanations);
  }
  order(peak, explanations);
  std::vector<bool> is_explained(peak.live().size());
  bool is_first = true;
  for (Explanation& explanation : explanations) {
    std::uint64_t more = 0;
    for (const std::uint32_t part : explanation.parts) {
      if (!is_explained[part]) more += peak.live()[part].size_bytes;
      is_explained[part] = true;
    }
    const bool is_of_note = more >= kLeastPeakBytes && more * 2 > explanation.bytes &&
                            is_at_least(more, kLeastShareOfMistake, peak.bytes());
    if (is_first || is_of_note) {
      auto& evidence = explanation.finding.evidence;
      const std::string unused = unused_text(peak, explanation);
      const bool is_about_use = explanation.finding.id == "never_used_again";
      if (!unused.empty() && !is_about_use) evidence.push_back(unused);
      const bool is_mistake = !explanation.finding.is_fact;
      if (is_mistake && explanation.finding.id != "garbage_in_cycles") {
        std::vector<std::uint32_t> rows;
        for (const std::uint32_t part : explanation.parts)
          rows.push_back(peak.live()[part].lifetime);
        name_holder(peak.facts(), peak.device(), rows,
                    is_about_use ? EditGoes::kInPlaceOfTheFirst : EditGoes::kBeforeTheSteps,
                    explanation.finding);
      }
      if (peak.is_inferred() && is_first) evidence.push_back(whole_text(peak));
      if (peak.is_inferred()) evidence.push_back(confidence_text(peak, explanation) + ".");
      findings.push_back(std::move(explanation.finding));
    }
    is_first = false;
  }
}

}  // namespace

Findings what_fills_the_peak(const Facts& facts) {
  Findings findings;
  const std::vector<DeviceFacts> devices = devices_of(facts);
  std::vector<const DeviceFacts*> by_peak;
  for (const DeviceFacts& device : devices) by_peak.push_back(&device);
  std::ranges::stable_sort(by_peak, std::ranges::greater{}, [](const DeviceFacts* device) {
    return device->report.live_totals().peak_bytes;
  });
  std::set<std::pair<model::DeviceType, std::string>> known;  // explanations already given for
                                                              // devices of a type that use more
                                                              // memory
  for (const DeviceFacts* device : by_peak) {
    Findings found;
    if (!is_peak_judged(facts, *device)) continue;
    if (auto peak = Peak::of(facts, *device)) append_best(*peak, found);
    // Replicas of a model have the same explanation.
    const model::DeviceType type = device->trace.device.type;
    std::erase_if(found, [&](const auto& each) { return known.contains({type, each.id}); });
    for (const report::Finding& finding : found) known.emplace(type, finding.id);
    std::ranges::move(found, std::back_inserter(findings));
  }
  return findings;
}

}  // namespace plimsoll::findings
