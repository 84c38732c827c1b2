// never_used_again: memory that is live at the peak although no operator uses it again. The facts
// are those of the pass `uses` (report/last_use.h).
#include "findings/peak/peak.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "findings/text.h"
#include "model/last_use.h"
#include "model/live_set.h"

namespace plimsoll::findings {
namespace {

using report::UnusedKind;
using report::UnusedRow;

// Of 23 healthy programs, one keeps more than 5 % for two steps, and one saves more than 19 %: each
// time a buffer of constant length, which does not count.
constexpr double kSavingShareOfPeak = 0.2;
constexpr std::uint64_t kFewestKept = 3;  // as for report::LastUse::kept_bytes

bool is_most(std::uint64_t part, std::uint64_t whole) { return part > 0 && part >= whole / 2; }

Parts unused_of(const Peak& peak, const Explanation& explanation) {
  return those_of(explanation.parts, [&](const Allocation& each) { return peak.is_unused(each); });
}

// Whether a backward that was to leave their graph has used most of them.
bool are_left_by_backward(const Peak& peak, const Parts& parts) {
  const Parts left = those_of(parts, [&](const Allocation& each) {
    return peak.evidence().is_left_by_backward(each.lifetime);
  });
  return is_most(bytes_of(left), bytes_of(parts));
}

// The rows that rule A (kept) or rule B (certain) is about, largest first.
std::vector<const UnusedRow*> advised(const report::LastUse& found) {
  const bool is_kept = is_at_least(found.kept_bytes, kLeastShareOfMistake, found.live_bytes);
  const bool is_certain =
      is_at_least(found.certain_saving_bytes, kSavingShareOfPeak, found.live_bytes);
  std::vector<const UnusedRow*> rows;
  for (const UnusedRow& row : found.rows) {
    if (row.is_bounded) continue;
    const bool is_of_kept = is_kept && row.kind == UnusedKind::kKept && row.count >= kFewestKept;
    if (is_of_kept || (is_certain && row.certain_bytes > 0)) rows.push_back(&row);
  }
  return rows;
}

std::string row_text(const Peak& peak, const UnusedRow& row) {
  const std::string text = row.line + ": " + bytes_text(row.bytes) + " in ";
  switch (row.kind) {
    case UnusedKind::kKept: {
      const bool is_counted = peak.has_steps() || !peak.backward_begins().empty();
      return text + counted(row.count, "allocation") + ", last used " +
             (is_counted ? "more than two steps before the peak." : "before the peak.");
    }
    case UnusedKind::kGradients:
      return text + counted(row.count, "gradient") + ", last used before the peak.";
    case UnusedKind::kOutputInBackward:
      return text + counted(row.count, "allocation") + " of forward, live while backward runs.";
    case UnusedKind::kLocal:
      return text + counted(row.count, "allocation") + ", last used earlier in the step.";
  }
  return text;
}

std::string step_for(const UnusedRow& row, bool is_left_by_backward) {
  if (is_left_by_backward) {
    return "A backward has used what " + row.line +
           " allocates, and autograd keeps it: pass create_graph=True or retain_graph=True only "
           "where a later backward needs the graph, and delete (del) what refers to it.";
  }
  switch (row.kind) {
    case UnusedKind::kKept:
      return "Find the list, attribute, closure or cache that retains what " + row.line +
             " allocates, and remove it there after its last use. If you need a part of it later, "
             "store only that part (.item(), .clone()).";
    case UnusedKind::kGradients:
      return "Call optimizer.zero_grad(set_to_none=True) right after optimizer.step().";
    case UnusedKind::kOutputInBackward:
      return "Delete what " + row.line +
             " allocates (`del`) before loss.backward(), or compute the loss in a function that "
             "returns only the loss: autograd itself keeps what backward needs.";
    case UnusedKind::kLocal:
      return "Delete what " + row.line +
             " allocates (`del`) after its last use. If it is an argument, pass it so that the "
             "caller holds no reference: f(g(x)) instead of y = g(x); f(y).";
  }
  return {};
}

}  // namespace

std::string unused_text(const Peak& peak, const Explanation& explanation) {
  const Parts unused = unused_of(peak, explanation);
  const std::uint64_t bytes = bytes_of(unused);
  if (!is_most(bytes, explanation.bytes)) return {};
  return "No operator uses " + bytes_text(bytes) + " of it again" +
         (are_left_by_backward(peak, unused)
              ? ": a backward with retain_graph=True or create_graph=True has left its graph."
              : ".");
}

bool is_mostly_unused(const Peak& peak, const Explanation& explanation) {
  // Programs keep parameters and optimizer state in any case: the rest shows it.
  const Parts used_again = those_of(explanation.parts, [&](const Allocation& each) {
    return peak.uses().used_again(each.lifetime, peak.event()) == model::UsedAgain::kYes;
  });
  const std::uint64_t unused = bytes_of(unused_of(peak, explanation));
  return unused > bytes_of(used_again) &&
         is_at_least(unused, kLeastShareOfMistake, explanation.bytes);
}

std::string unused_text(const Facts& facts, const DeviceFacts& device,
                        const std::function<bool(model::LineId)>& is_of_lines) {
  const auto peak = device.report.live_totals().peak_event;
  if (!device.report.last_use || !peak) return {};
  const auto event = static_cast<std::int64_t>(*peak);
  const model::LastUses& uses = facts.evidence(device.trace).uses;
  std::uint64_t unused = 0, whole = 0;
  for (const std::uint32_t row :
       model::live_set(device.trace, model::default_liveness(device.trace), event)) {
    if (!is_of_lines(facts.lines.line(facts.trace.stack(device.trace, row)))) continue;
    const std::uint64_t size = facts.trace.lifetime_bytes(device.trace, row);
    whole += size;
    if (uses.used_again(row, event) == model::UsedAgain::kNo) unused += size;
  }
  if (!is_most(unused, whole)) return {};
  return "At the peak, no operator uses " + bytes_text(unused) + " of the " + bytes_text(whole) +
         " of these lines again.";
}

void explain_never_used_again(Peak& peak, Explanations& out) {
  const auto& found = peak.device().report.last_use;
  if (!found || peak.bytes() < kLeastPeakBytes) return;
  std::vector<const UnusedRow*> rows = advised(*found);
  const auto is_of_rows = [&](const Allocation& each) {
    return std::ranges::find(rows, each.label(), &UnusedRow::line) != rows.end();
  };
  // Peak::live() is without the lines that grow, which memory_growth reports.
  Explanation explanation(peak.live_if(
      [&](const Allocation& each) { return peak.is_unused(each) && is_of_rows(each); }));
  if (explanation.bytes < kLeastPeakBytes) return;
  std::set<std::uint32_t> lines;
  std::set<std::string> labels;
  for (const Allocation& each : explanation.parts) {
    if (lines.insert(each.line().value).second) labels.insert(each.label());
  }
  std::erase_if(rows, [&](const UnusedRow* row) { return !labels.contains(row->line); });
  const std::uint64_t saving = peak.saving([&](const Allocation& each) {
    const bool is_theirs = lines.contains(each.line().value);
    return is_theirs ? peak.uses().freeable(each.lifetime) : each.died;
  });
  std::uint64_t kept = 0;
  for (const UnusedRow* row : rows) kept += row->kind == UnusedKind::kKept ? row->bytes : 0;
  if (!is_at_least(kept, kLeastShareOfMistake, peak.bytes()) &&
      !is_at_least(saving, kSavingShareOfPeak, peak.bytes())) {
    return;
  }
  const UnusedRow& first = *rows.front();
  report::Finding& finding = explanation.finding;
  explanation.kind = Kind::kUnused;
  finding.id = "never_used_again";
  finding.title = "No operator uses " + bytes_text(explanation.bytes) + " of the " +
                  bytes_text(peak.bytes()) + " at the peak on " + peak.device().name + " again";
  for (const UnusedRow* row : std::span(rows).first(std::min(kNamed, rows.size()))) {
    finding.evidence.push_back(row_text(peak, *row));
  }
  const std::uint64_t at_end = bytes_of(those_of(
      explanation.parts, [](const Allocation& each) { return each.died == model::kNone; }));
  if (is_most(at_end, explanation.bytes)) {
    finding.evidence.push_back(bytes_text(at_end) +
                               " of it was still live when the recording ended: what the program "
                               "read later is unknown.");
  }
  if (found->is_sampled) {
    finding.evidence.push_back("Uses of memory were observed only in some steps.");
  }
  const std::string path = path_text(explanation.parts);
  const bool has_callers = path.find(" → ") != std::string::npos;
  if (has_callers) finding.evidence.push_back("The calls that lead to most of it: " + path + ".");
  finding.steps = {
      {step_for(first, are_left_by_backward(peak, explanation.parts)) +
           (lines.size() > 1 ? " Free the memory of the other lines after its last use, too." : ""),
       saving}};
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings
