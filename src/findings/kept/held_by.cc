#include "findings/kept/held_by.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analysis/holders/chains.h"
#include "analysis/holders/edits.h"
#include "analysis/holders/holders.h"
#include "analysis/holders/reported.h"
#include "base/finding.h"
#include "base/units.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

namespace holders = analysis::holders;

// "After step 16, " or, without steps before it, "After 1.5 s, ": when the walk saw the link.
std::string time_text(const model::Trace& trace, const DeviceFacts& device,
                      const model::HolderLink& link) {
  const std::int64_t time_ns = trace.holders.walks[link.walk].time_ns;
  const auto steps = std::ranges::count_if(trace.marks, [&](const model::Mark& mark) {
    return mark.kind == model::MarkKind::kStep && mark.time_ns <= time_ns;
  });
  const std::int64_t since = time_ns - device.report.first_time_ns.value_or(time_ns);
  if (steps == 0) return since > 0 ? "After " + base::format_duration(since) + ", " : "";
  return "After step " + base::format_count(static_cast<std::uint64_t>(steps)) + ", ";
}

// What it holds, and the proof.
std::string evidence_text(const model::Trace& trace, const DeviceFacts& device, std::uint32_t link,
                          report::FindingHolder holder) {
  // The class of a root, such as module, says nothing.
  if (trace.holders.links[link].parent == 0) holder.type.clear();
  const std::string proof = proof_text(holder);
  return time_text(trace, device, trace.holders.links[link]) + holder_text(holder) +
         (proof.empty() ? "" : " " + proof);
}

bool has_link(const model::Trace& trace, const holders::Holder& holder, std::uint8_t kind) {
  return std::ranges::any_of(holders::chain_to(trace, holder.example), [&](std::uint32_t each) {
    return trace.holders.links[each].kind == kind;
  });
}

// What the edit saves of a change that saves `whole`: not what other holders keep. An edit that
// ends all references to a graph frees what other lines allocated for it, too; one that clears
// gradients frees only them.
std::uint64_t saving_of(const model::Trace& trace, std::span<const holders::Holder> found,
                        std::uint64_t whole) {
  const holders::Holder& first = found.front();
  std::uint64_t of_others = 0;
  for (const holders::Holder& each : found.subspan(1)) of_others += each.bytes;
  std::uint64_t saving = minus_or_zero(whole, of_others);
  if (first.cut == nullptr) return saving;
  const std::uint64_t freed = first.cut->freed_bytes, left = first.cut->left_bytes;
  if (left == 0) {
    const bool frees_less = first.cut->is_native || has_link(trace, first, PLIMSOLL_LINK_GRADIENT);
    return frees_less ? saving : std::max(saving, freed);
  }
  return static_cast<std::uint64_t>(static_cast<double>(saving) * static_cast<double>(freed) /
                                    static_cast<double>(freed + left));
}

// Another holder keeps what the edit does not free.
void name_other(const report::FindingHolder& holder, std::string& edit) {
  if (holder.left_bytes == 0 || holder.other.empty()) return;
  edit +=
      " " + holder.other + " keeps " + bytes_text(holder.left_bytes) + " of it, too: change both.";
}

}  // namespace

void name_holder(const Facts& facts, const DeviceFacts& device,
                 std::span<const std::uint32_t> lifetimes, EditGoes edit, report::Finding& finding,
                 std::string_view instead) {
  const model::Trace& trace = facts.trace;
  if (!device.trace.lifetimes.holder.present()) return;
  const std::vector<holders::Holder> found =
      holders::holders_of(trace, facts.holders(), device.trace, lifetimes);
  std::uint64_t bytes = 0;
  for (const std::uint32_t row : lifetimes) bytes += trace.lifetime_bytes(device.trace, row);
  if (found.empty() || !is_at_least(found.front().bytes, 0.5, bytes)) return;
  for (const holders::Holder& each : found) {
    finding.holders.push_back(holders::as_reported(trace, each));
    if (finding.holders.size() == kNamed) break;
  }
  const holders::Holder& holder = found.front();
  const report::FindingHolder& reported = finding.holders.front();
  finding.title += ", held by " + reported.path;
  finding.evidence.push_back(evidence_text(trace, device, holder.link, reported));
  std::string text = edit == EditGoes::kNowhere ? "" : holders::edit_text(trace, holder, instead);
  if (text.empty()) return;
  name_other(reported, text);
  report::FindingStep step{std::move(text)};
  if (!finding.steps.empty()) {
    step.saving_bytes = saving_of(trace, found, finding.steps.front().saving_bytes);
    step.is_upper_bound = step.saving_bytes > 0;
  }
  // The rule knows what makes a cycle, unless it is about what gathers tensors or makes models:
  // neither is a cycle without a model. An edit that frees nothing, because something unknown holds
  // the memory as well, does not come before one that does.
  const bool has_model = has_link(trace, holder, PLIMSOLL_LINK_PART);
  const bool is_cycle = trace.holders.links[holder.link].kind == PLIMSOLL_LINK_CYCLE &&
                        (has_model || edit != EditGoes::kInPlaceOfTheFirst);
  const bool frees_nothing =
      step.saving_bytes == 0 && !finding.steps.empty() && finding.steps.front().saving_bytes > 0;
  if (is_cycle || frees_nothing) {
    finding.steps.push_back(std::move(step));
  } else if (edit != EditGoes::kBeforeTheSteps && !finding.steps.empty()) {
    finding.steps.front() = std::move(step);
  } else {
    finding.steps.insert(finding.steps.begin(), std::move(step));
  }
}

}  // namespace plimsoll::findings
