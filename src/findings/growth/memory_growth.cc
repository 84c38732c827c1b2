// memory_growth: lines that leave allocations behind at every step.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/growth_rule.h"
#include "base/units.h"
#include "findings/growth/retained.h"
#include "findings/kept/held_by.h"
#include "findings/peak/peak.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/live_set.h"

namespace plimsoll::findings {
namespace {

// If growth accounts for this share of the live memory at the end, the run will run out of memory.
constexpr double kCriticalShareOfLive = 0.25;
constexpr std::size_t kGrowthLinesNamed = 4;

using report::GrowthRow;
using Rows = std::vector<GrowthRow>;

// The device's rows to report, steepest first: all certain ones, so that their sums are those of
// the table, or else uncertain ones that grow fast enough. Empty if none grows fast enough.
Rows rows_of(const Rows& table, std::int32_t device) {
  Rows rows;
  std::ranges::copy_if(table, std::back_inserter(rows),
                       [&](const GrowthRow& row) { return row.device == device; });
  const bool is_certain = std::ranges::any_of(
      rows, [](const GrowthRow& row) { return row.is_certain && grows_enough(row); });
  std::erase_if(rows, [&](const GrowthRow& row) {
    if (is_certain && !row.is_certain) return true;
    return (!is_certain || row.is_model_in_stages) && !grows_enough(row);
  });
  std::ranges::stable_sort(rows, std::ranges::greater{}, &GrowthRow::bytes_per_step);
  return rows;
}

// The rows of a device to report: lines, or categories if no line grows enough to be a row.
struct RowsToReport {
  Rows rows;
  Rows stages;  // of a model that grows in stages
};

RowsToReport rows_to_report(const Facts& facts, const DeviceFacts& device) {
  const report::Tables& tables = facts.report.tables;
  RowsToReport found;
  for (const Rows* table : {&tables.growth, &tables.growth_by_category}) {
    for (GrowthRow& row : rows_of(*table, device.report.device)) {
      const bool is_stage = row.is_model_in_stages && !row.is_of_lbfgs;
      (is_stage ? found.stages : found.rows).push_back(std::move(row));
    }
    if (!found.rows.empty() || !found.stages.empty()) break;
  }
  return found;
}

// "model.py:12 (forward), called from train.py:40 (main)".
std::string place_text(const GrowthRow& row) {
  return row.key + (row.caller.empty() ? "" : ", called from " + row.caller);
}

// "model.py:12 (forward): 1.5 MiB a step (95% interval: 1.2 MiB to 1.8 MiB). It holds 3.0 MiB at
// the end of step 26 and 10.0 MiB at the end of step 100, the latter in 7 allocations."
std::string row_text(const GrowthRow& row) {
  const std::string low = bytes_text(static_cast<std::uint64_t>(row.low_bytes_per_step));
  const std::string high = bytes_text(static_cast<std::uint64_t>(row.high_bytes_per_step));
  return place_text(row) + ": " + rate_text(row.bytes_per_step) +
         (low == high ? "" : " (95% interval: " + low + " to " + high + ")") + ". It holds " +
         bytes_text(row.first_bytes) + " at the end of step " + base::format_count(row.first_step) +
         " and " + bytes_text(row.last_bytes) + " at the end of step " +
         base::format_count(row.steps) +
         (row.is_appended ? ". Each of its tensors is the one before it and what is appended to it."
                          : ", the latter in " + counted(row.last_count, "allocation") + ".");
}

std::uint64_t live_count(const Rows& rows) {
  std::uint64_t count = 0;
  for (const GrowthRow& row : rows) count += row.last_count;
  return count;
}

void add_rows(const Rows& rows, report::Finding& finding) {
  const std::size_t named = std::min(kGrowthLinesNamed, rows.size());
  for (const GrowthRow& row : std::span(rows).first(named)) {
    finding.evidence.push_back(row_text(row));
  }
  if (rows.size() > named) {
    finding.evidence.push_back(counted(rows.size() - named, "more line") +
                               (rows.size() == named + 1 ? " grows" : " grow") + " as well.");
  }
}

// "The category that grows most: activation, by 1.5 MiB a step."
void add_steepest(const char* kind, const Rows& table, std::int32_t device,
                  report::Finding& finding) {
  const auto first = std::ranges::find(table, device, &GrowthRow::device);
  if (first == table.end()) return;
  finding.evidence.push_back("The " + std::string(kind) + " that grows most: " + first->key +
                             ", by " + rate_text(first->bytes_per_step) + ".");
}

// Explains what counts as a step, unless the program or the recorder marks steps.
std::string boundary_text(const std::string& boundary) {
  if (boundary == "step") return {};
  if (boundary == "cycle") return " A step is a cycle: a rise and a fall of live memory.";
  if (boundary.starts_with("call of ")) return " A step is a " + boundary + ".";
  return " A step ends with: " + boundary + ".";
}

// "6 of 62 steps", or "6 of 62 groups of 4 steps" if there are more than 128 steps.
std::string compared_text(const GrowthRow& row) {
  const bool is_one = row.steps_each == 1;
  return base::format_count(row.grown_steps) + " of " +
         counted(row.compared_steps, is_one ? "step" : "group") +
         (is_one ? "" : " of " + counted(row.steps_each, "step")) + " that are compared";
}

// "6 of 62 steps that are compared leave memory behind. The first quarter of the 100 steps is
// warm-up and does not count."
std::string steps_text(const GrowthRow& row) {
  return (is_every_step(row) ? "Every step leaves" : compared_text(row) + " leave") +
         " memory behind. The first quarter of the " + counted(row.steps, "step") +
         " is warm-up and does not count." + boundary_text(row.boundary);
}

// What to do about what certain lines retain.
std::string retained_text(const DeviceFacts& device, const GrowthRow& first, Retained retained) {
  const std::string place = place_text(first);
  if (first.is_appended) {
    return "Bound the tensor that " + place + " makes longer " +
           (is_every_step(first) ? "at every step" : "again and again") +
           ": drop its oldest part, write into one of fixed size, or move it to a file.";
  }
  const std::string name =
      first.line.empty() ? "the category " + first.key : place + (first.caller.empty() ? "" : ",");
  return free_advice(device, name, retained, &first);
}

// At most what the program saves if each step frees at its end what it leaves behind. What lives
// through one end of a step only is replaced in the next step. A tensor that gets longer is
// bounded: while torch.cat runs, two of them are live, as large as what one step appends.
std::uint64_t saving_of(const Facts& facts, const DeviceFacts& device, const Rows& rows) {
  const DeviceEvidence& known = facts.evidence(device.trace);
  const auto ends = known.evidence.spans().steps();
  const model::Lifetimes& lifetimes = device.trace.lifetimes;
  const auto liveness = model::default_liveness(device.trace);
  const RowOfLine row_of_line = row_of_each_line(facts, rows);
  const auto absent = [&](std::uint32_t lifetime) -> whatif::Absence {
    const GrowthRow* row =
        row_of_line[facts.lines.line(facts.trace.stack(device.trace, lifetime)).index()];
    if (row == nullptr) return {};
    const std::uint32_t born = lifetimes.alloc[lifetime];
    const std::uint32_t died = model::death(lifetimes, lifetime, liveness);
    if (row->is_appended) {
      const std::uint64_t size = facts.trace.lifetime_bytes(device.trace, lifetime);
      const bool is_longer = static_cast<double>(size) > row->bytes_per_step;
      return is_longer ? whatif::Absence{born, model::kNone} : whatif::Absence{};
    }
    const auto end = std::ranges::upper_bound(ends, born);
    const bool is_retained =
        died == model::kNone || std::ranges::upper_bound(ends, died) - end >= 2;
    if (!is_retained) return {};
    return {end == ends.end() ? born : *end, model::kNone};
  };
  std::uint64_t bounded = 0, grown = 0;
  for (const GrowthRow& row : rows) {
    if (row.is_appended) bounded += 2 * static_cast<std::uint64_t>(row.bytes_per_step);
    grown += static_cast<std::uint64_t>(row.grown_bytes);
  }
  const std::uint64_t lower = known.replay.peak_if(absent) + bounded;
  const std::uint64_t peak = known.replay.peak_bytes();
  return std::max(peak - std::min(peak, lower), grown);
}

void add_steps(const Facts& facts, const DeviceFacts& device, const Rows& rows, Retained retained,
               report::Finding& finding) {
  const GrowthRow& first = rows.front();
  if (!first.is_certain && !first.is_of_lbfgs) {
    finding.steps = {
        {"Record at least 12 steps: these are too few to distinguish growth from a cache that "
         "fills."}};
    return;
  }
  const std::uint64_t saving = saving_of(facts, device, rows);
  if (first.is_of_lbfgs) {
    finding.evidence.emplace_back(
        "L-BFGS keeps its last history_size updates (100 if it is not set): memory grows for that "
        "number of iterations and then stays.");
    finding.steps = {step_up_to("If that is too much, pass a smaller history_size.", saving)};
    return;
  }
  if (first.is_of_calls) {
    finding.evidence.emplace_back("If the program collects results on purpose, nothing is wrong.");
    if (retained == Retained::kGraphs) {
      finding.steps.push_back(step_up_to(
          "No backward runs, so call the model under torch.no_grad() or torch.inference_mode(): "
          "without them, each result retains the graph that made it (a key-value cache retains "
          "those of all earlier steps).",
          saving));
    }
  }
  finding.steps.push_back(step_up_to(retained_text(device, first, retained), saving));
}

// A collection whose members operators use again, long after the steps that made them.
struct Collected {
  std::uint64_t bytes = 0;  // of what the lines leave behind
  std::uint64_t used_bytes = 0;
  bool is_used() const { return used_bytes > 0 && used_bytes * 2 >= bytes; }
};

Collected collected(const Facts& facts, const DeviceFacts& device, const Rows& rows,
                    Retained retained) {
  // Each backward uses a graph that is kept.
  const bool are_tensors = retained == Retained::kTensors || retained == Retained::kOutputs ||
                           retained == Retained::kMadeWithoutGraph;
  const bool has_own_advice = rows.front().is_appended || rows.front().is_of_lbfgs;
  if (!facts.trace.has_uses || !are_tensors || has_own_advice) return {};
  const DeviceEvidence& known = facts.evidence(device.trace);
  const auto ends = known.evidence.spans().steps();
  const model::Lifetimes& lifetimes = device.trace.lifetimes;
  const RowOfLine row_of_line = row_of_each_line(facts, rows);
  std::map<const GrowthRow*, std::vector<std::uint32_t>> made;  // by birth
  for (std::uint32_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const model::LineId line = facts.lines.line(facts.trace.stack(device.trace, row));
    if (const GrowthRow* of = row_of_line[line.index()]) made[of].push_back(row);
  }
  Collected all;
  for (const auto& [of, row] : made) {
    // When the next step has ended; without marks, when the line has made what two of them make.
    const std::size_t ahead = 2 * (row.size() / std::max<std::uint64_t>(1, of->steps) + 1);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto end = std::ranges::upper_bound(ends, lifetimes.alloc[row[i]]);
      const bool is_young = ends.empty() ? row.size() - i <= ahead : ends.end() - end < 2;
      if (is_young) break;
      const std::int64_t later = ends.empty() ? lifetimes.alloc[row[i + ahead]] : end[1];
      if (model::death(lifetimes, row[i], model::default_liveness(device.trace)) <= later) continue;
      const std::uint64_t size = facts.trace.lifetime_bytes(device.trace, row[i]);
      all.bytes += size;
      if (known.uses.used_again(row[i], later) == model::UsedAgain::kYes) all.used_bytes += size;
    }
  }
  return all;
}

// Names what holds what the lines leave behind, at the end or when a walk last found it.
void add_holder(const Facts& facts, const DeviceFacts& device, const Rows& rows, Retained retained,
                bool is_used, report::Finding& finding) {
  const RowOfLine row_of_line = row_of_each_line(facts, rows);
  const model::Lifetimes& lifetimes = device.trace.lifetimes;
  std::vector<std::uint32_t> left;
  for (std::uint32_t row = 0; row < lifetimes.size(); ++row) {
    const bool is_left =
        lifetimes.holder[row] != 0 ||
        model::death(lifetimes, row, model::default_liveness(device.trace)) == model::kNone;
    if (!is_left) continue;
    const model::LineId line = facts.lines.line(facts.trace.stack(device.trace, row));
    if (row_of_line[line.index()] != nullptr) left.push_back(row);
  }
  // A tensor that gets longer is to be bounded, and what is used again stays. "Make the model once"
  // is no advice about a cycle without a model; other steps know what makes the cycle.
  EditGoes edit = EditGoes::kInPlaceUnlessCycle;
  if (retained == Retained::kModel) edit = EditGoes::kInPlaceOfTheFirst;
  if (rows.front().is_of_calls) edit = EditGoes::kBeforeTheSteps;
  if (rows.front().is_appended || is_used) edit = EditGoes::kNowhere;
  name_holder(facts, device, left, edit, finding, instead_text(device, retained, &rows.front()));
}

// "Tensors on cpu grow in number by 128 a step, to 128,000 at the end".
std::string number_text(const DeviceFacts& device, const Rows& rows, const char* average) {
  double per_step = 0;
  for (const GrowthRow& row : rows) per_step += count_per_step(row);
  return "Tensors on " + device.name + " grow in number by " +
         base::format_count(static_cast<std::uint64_t>(std::max(1.0, std::round(per_step)))) +
         " a step" + average + ", to " + base::format_count(live_count(rows)) + " at the end";
}

std::string objects_text(const Rows& rows) {
  const double bytes = static_cast<double>(live_count(rows)) * base::kTensorObjectBytes;
  return "Each needs about " + bytes_text(static_cast<std::uint64_t>(base::kTensorObjectBytes)) +
         " of host memory in addition to its own, for its object, its storage and its block: " +
         bytes_text(static_cast<std::uint64_t>(bytes)) +
         " in all, and as much again if a graph retains them.";
}

// `rows` are lines or, if each line alone grows too little to report, categories.
report::Finding make_finding(const Facts& facts, const DeviceFacts& device, const Rows& rows) {
  double per_step = 0;
  std::uint64_t grown = 0;
  for (const GrowthRow& row : rows) {
    per_step += row.bytes_per_step;
    grown += static_cast<std::uint64_t>(row.grown_bytes);
  }
  const GrowthRow& first = rows.front();
  const auto live =
      static_cast<std::uint64_t>(std::max<std::int64_t>(device.report.live_totals().end_bytes, 0));
  const bool is_in_bytes = std::ranges::any_of(rows, grows_in_bytes);
  const Retained retained = retained_by(facts, device, rows);
  const Collected used = collected(facts, device, rows, retained);
  const bool is_fact =
      !first.is_certain || first.is_of_calls || first.is_of_lbfgs || used.is_used();
  report::Finding finding;
  finding.id = "memory_growth";
  finding.severity = is_fact ? report::FindingSeverity::kInfo
                     : is_in_bytes && is_at_least(grown, kCriticalShareOfLive, live)
                         ? report::FindingSeverity::kCritical
                         : report::FindingSeverity::kWarning;
  const char* const average = std::ranges::all_of(rows, is_every_step) ? "" : " on average";
  finding.title =
      is_in_bytes
          ? "Memory on " + device.name + (first.is_certain ? " grows by " : " may grow by ") +
                rate_text(per_step) + average + ", by " + bytes_text(grown) + " in this recording"
          : number_text(device, rows, average);
  add_rows(rows, finding);
  if (!is_in_bytes) finding.evidence.push_back(objects_text(rows));
  const report::Tables& tables = facts.report.tables;
  if (!first.line.empty()) {
    add_steepest("category", tables.growth_by_category, device.report.device, finding);
  }
  add_steepest("layer", tables.growth_by_layer, device.report.device, finding);
  finding.evidence.push_back(steps_text(first));
  if (used.is_used()) {
    finding.evidence.push_back("Operators use " + bytes_text(used.used_bytes) + " of " +
                               bytes_text(used.bytes) +
                               " again, later than in the next step: the program collects "
                               "them on purpose.");
    finding.steps = {
        {"If a part of each is enough, store its .clone(): a view retains the whole tensor. If "
         "not, "
         "write them to a file."}};
  } else if (first.is_certain && device.report.last_use) {
    const RowOfLine row_of_line = row_of_each_line(facts, rows);
    std::string unused = unused_text(
        facts, device, [&](model::LineId line) { return row_of_line[line.index()] != nullptr; });
    if (!unused.empty()) finding.evidence.push_back(std::move(unused));
  }
  if (!used.is_used()) add_steps(facts, device, rows, retained, finding);
  if (first.is_certain) add_holder(facts, device, rows, retained, used.is_used(), finding);
  return finding;
}

report::Finding model_in_stages(const DeviceFacts& device, const Rows& rows) {
  report::Finding finding;
  std::int64_t first_bytes = 0, last_bytes = 0;
  std::uint64_t stages = 0;
  for (const GrowthRow& row : rows) {
    first_bytes += row.first_bytes;
    last_bytes += row.last_bytes;
    stages = std::max(stages, row.stages);
  }
  const GrowthRow& first = rows.front();
  finding.id = "memory_growth";
  finding.title = "The model on " + device.name + " grew in " + counted(stages, "stage") +
                  ": parts of it from " + bytes_text(first_bytes) + " to " + bytes_text(last_bytes);
  add_rows(rows, finding);
  finding.evidence.push_back(
      "These are parameters and buffers, with their gradients and optimizer state. " +
      compared_text(first) + " add to them." + boundary_text(first.boundary));
  finding.evidence.emplace_back(
      "If the model gets new parts on purpose (a head for each task, a block for each stage), "
      "nothing is wrong.");
  finding.steps = {{"Make the model and its optimizer once, before the loop."}};
  return finding;
}

}  // namespace

void memory_growth(const Facts& facts, const DeviceFacts& device, Findings& out) {
  const Rows rows = rows_to_report(facts, device).rows;
  if (!rows.empty()) out.push_back(make_finding(facts, device, rows));
}

// A model that gets new parts in a few stages may be intended. It is not if these parts are models
// of their own that a mistake retains, such as garbage.
void explain_stages(Peak& peak, Explanations& out) {
  const Rows stages = rows_to_report(peak.facts(), peak.device()).stages;
  if (stages.empty()) return;
  Explanation explanation(peak.live_if([&](const Allocation& each) {
    return std::ranges::any_of(stages, [&](const GrowthRow& row) {
      return row.line.empty() ? row.key == each.category() : row.line == each.label();
    });
  }));
  explanation.kind = Kind::kGrowth;
  explanation.finding = model_in_stages(peak.device(), stages);
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings
