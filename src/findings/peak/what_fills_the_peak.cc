// Explains what fills the peak. Several explanations compete: each lists the bytes that it
// explains. The best comes first, and another follows only if it explains substantial bytes that
// earlier ones do not: more than half of its own, or all that its first step saves.
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "findings/kept/held_by.h"
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
  return peak.replay().never_made(rows_of(explanation.parts));
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

// What is known about the memory of any explanation: whether it is used again, what holds it and,
// in a snapshot, how reliable the categories are.
void add_facts(const Peak& peak, bool is_first, Explanation& explanation) {
  report::Finding& finding = explanation.finding;
  const std::string unused = unused_text(peak, explanation);
  const bool is_about_use = finding.id == "never_used_again";
  if (!unused.empty() && !is_about_use) finding.evidence.push_back(unused);
  if (!finding.is_fact && finding.id != "garbage_in_cycles") {
    name_holder(peak.facts(), peak.device(), rows_of(explanation.parts),
                is_about_use ? EditGoes::kInPlaceOfTheFirst : EditGoes::kBeforeTheSteps, finding);
  }
  if (!peak.is_inferred()) return;
  if (is_first) {
    finding.evidence.push_back("The peak of " + bytes_text(peak.bytes()) + " contains " +
                               kinds_text(live_bytes(peak.facts(), peak.device(), peak.event())) +
                               ".");
  }
  const std::uint64_t by_size = bytes_of(those_of(
      explanation.parts, [](const Allocation& each) { return each.born == model::kNone; }));
  finding.evidence.push_back("Inferred from stacks and lifetimes" +
                             (by_size == 0 ? ""
                                           : ", for " + bytes_text(by_size) +
                                                 " from before the history from sizes alone") +
                             ": a snapshot records no categories.");
}

void append_best(Peak& peak, Findings& findings) {
  Explanations explanations;
  for (const PeakRule& rule : kRules) {
    const bool is_for_it = rule.source == (peak.is_inferred() ? kSnapshot : kNative);
    if (is_for_it || rule.source == kBoth) rule.explain(peak, explanations);
  }
  order(peak, explanations);
  std::set<std::uint32_t> explained;  // lifetimes
  for (Explanation& explanation : explanations) {
    const bool is_first = explained.empty();
    std::uint64_t more = 0;
    for (const Allocation& each : explanation.parts) {
      if (explained.insert(each.lifetime).second) more += each.size_bytes;
    }
    const std::uint64_t saving = explanation.finding.saving_bytes();
    const bool is_other = more * 2 > explanation.bytes || (saving > 0 && saving <= more);
    const double share = explanation.finding.is_fact ? kLeastShareOfMistake : kLeastShareOfHabit;
    if (!is_first && (!is_other || !peak.is_much(more, share))) continue;
    add_facts(peak, is_first, explanation);
    findings.push_back(std::move(explanation.finding));
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
    if (!is_peak_judged(facts, *device)) continue;
    Findings found;
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
