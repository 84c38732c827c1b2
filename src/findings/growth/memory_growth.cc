// memory_growth: lines that leave allocations behind at every step.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/evidence/backwards.h"
#include "base/growth_rule.h"
#include "base/path_text.h"
#include "base/units.h"
#include "findings/growth/retained.h"
#include "findings/peak/never_used_again.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/function_name.h"
#include "model/live_set.h"
#include "model/user_line.h"

namespace plimsoll::findings {
namespace {

// If growth accounts for this share of the live memory at the end, the run will run out of memory.
constexpr double kCriticalShareOfLive = 0.25;
constexpr std::size_t kGrowthLinesNamed = 4;
// Share of the growing graphs that backward allocated; a plain backward frees its own.
constexpr double kShareOfBackwardGraph = 0.1;

using GrowthRows = std::vector<report::GrowthRow>;

// The device's rows that grow fast enough to report, steepest first.
GrowthRows rows_of(const GrowthRows& table, std::int32_t device) {
  GrowthRows rows;
  for (const report::GrowthRow& row : table) {
    if (row.device == device && row.bytes_per_step >= base::kLeastGrowthPerStep)
      rows.push_back(row);
  }
  // Certain rows are reported on their own.
  if (std::ranges::any_of(rows, &report::GrowthRow::is_certain)) {
    std::erase_if(rows, [](const report::GrowthRow& row) { return !row.is_certain; });
  }
  std::ranges::stable_sort(rows, std::ranges::greater{}, &report::GrowthRow::bytes_per_step);
  return rows;
}

// "1.5 MiB a step (1.2 MiB to 1.8 MiB)": with the interval if the steps differ.
std::string rate_with_interval(const report::GrowthRow& row) {
  const std::string low = bytes_text(static_cast<std::uint64_t>(row.low_bytes_per_step));
  const std::string high = bytes_text(static_cast<std::uint64_t>(row.high_bytes_per_step));
  const std::string rate = rate_text(row.bytes_per_step);
  return low == high ? rate : rate + " (95% interval: " + low + " to " + high + ")";
}

// "The category that grows most: activation, by 1.5 MiB a step."
void add_kind(const char* kind, const GrowthRows& table, std::int32_t device,
              report::Finding& finding) {
  const auto first = std::ranges::find(table, device, &report::GrowthRow::device);
  if (first == table.end()) return;
  finding.evidence.push_back("The " + std::string(kind) + " that grows most: " + first->key +
                             ", by " + rate_text(first->bytes_per_step) + ".");
}

// "It holds 3.0 MiB at the end of step 26 and 10.0 MiB at the end of step 100".
std::string first_and_last_text(const report::GrowthRow& row) {
  return "It holds " + bytes_text(row.first_bytes) + " at the end of step " +
         base::format_count(row.first_step) + " and " + bytes_text(row.last_bytes) +
         " at the end of step " + base::format_count(row.steps);
}

// "model.py:12 (forward), called from train.py:40 (main)".
std::string place_text(const report::GrowthRow& row) {
  return row.key + (row.caller.empty() ? "" : ", called from " + row.caller);
}

void add_rows(const GrowthRows& rows, report::Finding& finding) {
  for (const auto& row : std::span(rows).first(std::min(kGrowthLinesNamed, rows.size()))) {
    const std::string members =
        row.is_appended ? ". Each of its tensors is the one before it and what is appended to it."
                        : ", the latter in " + counted(row.last_count, "allocation") + ".";
    finding.evidence.push_back(place_text(row) + ": " + rate_with_interval(row) + ". " +
                               first_and_last_text(row) + members);
  }
  if (rows.size() > kGrowthLinesNamed) {
    finding.evidence.push_back(counted(rows.size() - kGrowthLinesNamed, "more line") +
                               " grow as well.");
  }
}

// Explains what counts as a step, unless the program or the recorder marks steps.
std::string boundary_text(const std::string& boundary) {
  if (boundary == "step") return {};
  if (boundary == "cycle") return " A step is a cycle: a rise and a fall of live memory.";
  if (boundary.starts_with("call of ")) return " A step is a " + boundary + ".";
  return " A step ends with: " + boundary + ".";
}

// "62 steps", or "62 groups of 4 steps" if there are more than 128 steps.
std::string compared_text(const report::GrowthRow& row) {
  if (row.steps_each == 1) return counted(row.compared_steps, "step");
  return counted(row.compared_steps, "group") + " of " + counted(row.steps_each, "step");
}

// "6 of 62 steps that are compared leave memory behind. The first quarter of the 100 steps is
// warm-up and does not count."
std::string steps_text(const report::GrowthRow& row) {
  const bool is_each = row.grown_steps == row.compared_steps;
  const std::string each =
      row.steps_each == 1 ? "step" : "group of " + counted(row.steps_each, "step");
  const std::string steps = is_each
                                ? "Every " + each + " leaves memory behind"
                                : base::format_count(row.grown_steps) + " of " +
                                      compared_text(row) + " that are compared leave memory behind";
  return steps + ". The first quarter of the " + counted(row.steps, "step") +
         " is warm-up and does not count." + boundary_text(row.boundary);
}

// The holder of the memory, as the subject of a sentence.
std::string holder_text(const report::GrowthRow& row) {
  if (row.line.empty()) return "the category " + row.key;
  return place_text(row) + (row.caller.empty() ? "" : ",");
}

using Texts = std::vector<std::string>;

std::string append_text(const report::GrowthRow& row) {
  return "Bound the tensor that " + place_text(row) + " makes longer " +
         (is_every_step(row) ? "at every step" : "again and again") +
         ": drop its oldest part, write into one of fixed size, or "
         "move it to a file.";
}

// A stack that is charged to the line with this label.
std::optional<model::StackId> stack_of_line(const Facts& facts, const std::string& label) {
  for (std::uint32_t id = 0; id < facts.lines.line_count(); ++id) {
    if (facts.lines.label(model::LineId{id}) != label) continue;
    for (std::uint32_t stack = 0; stack < facts.trace.stacks.stack_count(); ++stack) {
      if (facts.lines.line(model::StackId{stack}).value == id) return model::StackId{stack};
    }
  }
  return std::nullopt;
}

// Whether a line is in a torch.autograd.Function.
bool is_in_autograd_function(const Facts& facts, const std::string& line) {
  const std::optional<model::StackId> stack = stack_of_line(facts, line);
  return stack && facts.of_trace.stacks.has(*stack, evidence::StackFlag::kAutogradFunction);
}

// Whether the text of a line shows that it calls backward(create_graph=True).
bool is_backward_with_graph(const Facts& facts, const std::string& line) {
  const std::optional<model::StackId> stack = stack_of_line(facts, line);
  if (!stack || facts.lines.why(*stack) != model::NoLine::kHasLine) return false;
  const model::Frame& frame = facts.trace.stacks.frame(facts.lines.frame(*stack));
  const model::SourceLine* const source = facts.trace.source.line(frame.file, frame.line);
  return source != nullptr && source->text.find(".backward(") != std::string::npos &&
         source->text.find("create_graph=True") != std::string::npos;
}

// Whether the program drops the result of a call of its model, outside all forwards: the statement
// that leads to the line is nothing but that call. What grows is then kept inside the model.
bool drops_result(const Facts& facts, const std::string& line) {
  const model::Trace& trace = facts.trace;
  const std::optional<model::StackId> stack = stack_of_line(facts, line);
  if (!stack) return false;
  bool is_called = false;  // by the frame at hand, as a module
  for (const model::FrameId id : trace.stacks.frames(*stack)) {
    const model::Frame& frame = trace.stacks.frame(id);
    const std::string_view file = trace.strings[frame.file];
    const bool is_user = model::origin_of(file) == model::FrameOrigin::kUser;
    if (is_called && is_user && !model::is_forward(trace.strings[frame.function])) {
      const model::SourceLine* const source = trace.source.line(frame.file, frame.line);
      if (source == nullptr) return false;
      std::string_view text = source->text;
      if (text.starts_with("_ = ")) text.remove_prefix(4);
      const std::size_t open = text.find('(');
      const bool is_one_call = open != text.npos && text.rfind('(') == open && text.ends_with(')');
      return is_one_call && text.substr(0, open).find_first_of(" =") == text.npos;
    }
    is_called = base::ends_with_path(file, "torch/nn/modules/module.py");
  }
  return false;
}

// The tensors that backward makes and that are live at the end, and the part of them that a
// checkpoint recomputes: operators of the forward, which have no forward operator of their own.
struct LeftByBackward {
  std::uint64_t bytes = 0;
  std::uint64_t recomputed_bytes = 0;

  bool is_mostly_recomputed() const { return recomputed_bytes * 2 > bytes; }
};

LeftByBackward left_by_backward(const Facts& facts, const DeviceFacts& device) {
  const model::Trace& trace = facts.trace;
  LeftByBackward left;
  const auto last = static_cast<std::int64_t>(device.trace.events.size()) - 1;
  for (const std::uint32_t row :
       model::live_set(device.trace, model::default_liveness(device.trace), last)) {
    if (trace.strings[trace.category(device.trace, row)] != model::kActivationGradient) continue;
    const model::Site& site = trace.birth(device.trace, row);
    const std::uint64_t size = trace.lifetime_bytes(device.trace, row);
    left.bytes += size;
    const bool is_own = site.forward_op == model::StringId{};
    const bool is_recomputed =
        facts.of_trace.stacks.has(site.stack, evidence::StackFlag::kCheckpoint);
    if (is_own && is_recomputed) left.recomputed_bytes += size;
  }
  return left;
}

// What backward leaves behind.
struct OfBackward {
  bool is_recomputed = false;  // most of it is what a checkpoint recomputes
  double graph_rate = 0;  // bytes of its graph that a step leaves, if its forward's graph grows too
};

OfBackward of_backward(const Facts& facts, const DeviceFacts& device) {
  if (left_by_backward(facts, device).is_mostly_recomputed()) return {.is_recomputed = true};
  double forward = 0, backward = 0;
  for (const report::GrowthRow& row : facts.report.tables.growth_by_category) {
    if (row.device != device.report.device || !row.is_certain) continue;
    if (row.key == model::kActivation) forward = row.bytes_per_step;
    if (row.key == model::kActivationGradient) backward = row.bytes_per_step;
  }
  const bool is_graph = forward > 0 && backward >= kShareOfBackwardGraph * (forward + backward);
  return {.graph_rate = is_graph ? backward : 0};
}

Texts create_graph_texts(const report::GrowthRow& first) {
  return {"Pass create_graph=True only if you differentiate through the gradient.",
          "Set .grad to None after use (zero_grad(), also for copies of the model), or call "
          "torch.autograd.grad instead of backward: a .grad with a graph is never freed with its "
          "parameter.",
          "Store only .detach() of what " + first.key + " collects."};
}

std::string recomputed_text(const report::GrowthRow& first) {
  return "Do not keep what runs inside checkpoint(): backward recomputes it, and " +
         place_text(first) +
         " retains the result at every step. Usual causes are saved_tensors_hooks or save_on_cpu "
         "inside the function that checkpoint() runs, and a list or attribute to which it adds "
         "tensors. Use such hooks outside of checkpoint(), or call the function without "
         "checkpoint().";
}

// Whether backwards leave a tensor behind for each tensor that another line leaves: the .grad of a
// leaf, which refers to its leaf if the backward ran with create_graph=True.
bool is_of_gradients_of_leaves(const Facts& facts, const DeviceFacts& device) {
  double backward = 0, leaves = 0;
  for (const report::GrowthRow& row : facts.report.tables.growth_by_category) {
    if (row.device != device.report.device || !row.is_certain) continue;
    if (row.key == model::kActivation) return false;
    (row.key == model::kActivationGradient ? backward : leaves) += row.bytes_per_step;
  }
  return backward > 0 && leaves >= backward / 2 && leaves <= backward * 2;
}

// Whether each step leaves at most one activation behind, the result of a forward. A graph retains
// several.
bool is_one_a_step(const Facts& facts, const DeviceFacts& device, const GrowthRows& rows) {
  if (rows.size() == 1) return rows.front().survivors <= rows.front().steps;
  std::uint64_t activations = 0;
  for (const report::GrowthRow& row : facts.report.tables.growth_by_category) {
    if (row.device != device.report.device) continue;
    if (row.key == model::kActivationGradient) return false;
    if (row.key == model::kActivation) activations = row.survivors;
  }
  return activations > 0 && activations <= rows.front().steps;
}

// What to do about what certain lines retain.
Texts retained_texts(const Facts& facts, const DeviceFacts& device, const GrowthRows& rows,
                     const OfBackward& left) {
  const report::GrowthRow& first = rows.front();
  const auto steepest = std::span(rows).first(std::min(kGrowthLinesNamed, rows.size()));
  for (const report::GrowthRow& row : steepest) {
    if (!is_backward_with_graph(facts, row.line)) continue;
    return {"Call torch.autograd.grad(…, create_graph=True) instead of backward at " + row.key +
                ": a .grad with a graph refers to its parameter, so neither is ever freed.",
            "Set .grad to None after use, also of each copy of the model."};
  }
  Retained retained = retained_by(facts, device, rows);
  if (retained == Retained::kGraphs && is_one_a_step(facts, device, rows)) {
    retained = Retained::kOutputs;
  }
  const bool is_of_forward = retained == Retained::kGraphs || retained == Retained::kOutputs ||
                             retained == Retained::kMadeWithoutGraph;
  if (is_of_forward && drops_result(facts, first.line)) {
    return {"Remove the hook that keeps what " + place_text(first) +
                " makes: call remove() on the handle that register_forward_hook returned, before "
                "another one is registered. The program drops the result of that call.",
            "If a module keeps it in a list or an attribute, clear it at every step."};
  }
  std::string text = free_advice(holder_text(first), device.report.device, retained, &first);
  for (const report::GrowthRow& row : steepest) {
    if (retained != Retained::kGraphs || !is_in_autograd_function(facts, row.line)) continue;
    return {"If " + row.key +
                " stores tensors as attributes of ctx, pass them to ctx.save_for_backward: an "
                "output that is an attribute refers to itself through its graph, and is never "
                "freed.",
            text};
  }
  if (rows.size() > 1 && is_of_gradients_of_leaves(facts, device)) {
    return {
        "If backward(create_graph=True) makes the .grad of these tensors, call "
        "torch.autograd.grad(…, create_graph=True) instead: a .grad with a graph refers to its "
        "tensor, so neither is ever freed, unless the program sets .grad to None.",
        text};
  }
  if (left.is_recomputed) return {recomputed_text(first)};
  return left.graph_rate > 0 ? create_graph_texts(first) : Texts{text};
}

// For each line of the recording, the position in `rows` of the row it has; rows.size() for others.
std::vector<std::size_t> row_of_each_line(const Facts& facts, const GrowthRows& rows) {
  std::unordered_map<std::string_view, std::size_t> row_of_label;
  for (std::size_t i = 0; i < rows.size(); ++i) row_of_label.emplace(rows[i].line, i);
  std::vector<std::size_t> row_of_line(facts.lines.line_count(), rows.size());
  for (std::uint32_t id = 0; id < row_of_line.size(); ++id) {
    const auto found = row_of_label.find(facts.lines.label(model::LineId{id}));
    if (found != row_of_label.end()) row_of_line[id] = found->second;
  }
  return row_of_line;
}

// At most what the program saves at the peak if no line keeps more than one step's share, in bytes.
//
// A tensor that gets longer: while torch.cat runs, its result and the previous tensor are both
// live, and with a bound each of them is as large as what one step appends. Any other line retains
// what is live at the end and what lives through two ends of steps, which a tensor that each step
// replaces does not.
std::uint64_t saving_at_peak(const Facts& facts, const DeviceFacts& device,
                             const GrowthRows& rows) {
  std::vector<double> saved(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].is_appended) saved[i] = -rows[i].bytes_per_step;
  }
  const auto liveness = model::default_liveness(device.trace);
  const auto steps = evidence::marks_of(facts.trace, device.trace, model::MarkKind::kStep);
  const auto is_retained = [&](std::uint32_t lifetime) {
    const std::uint32_t born = device.trace.lifetimes.alloc[lifetime];
    if (born == model::kNone) return false;
    const std::uint32_t died = model::death(device.trace.lifetimes, lifetime, liveness);
    const auto ends = std::ranges::upper_bound(steps, died) - std::ranges::upper_bound(steps, born);
    return died == model::kNone || ends >= 2;
  };
  if (const std::optional<std::uint64_t> peak = device.report.live_totals().peak_event) {
    const std::vector<std::size_t> row_of_line = row_of_each_line(facts, rows);
    for (const std::uint32_t lifetime :
         model::live_set(device.trace, liveness, static_cast<std::int64_t>(*peak))) {
      const model::LineId line = facts.lines.line(facts.trace.stack(device.trace, lifetime));
      const std::size_t i = row_of_line[line.index()];
      if (i == rows.size()) continue;
      const auto size = static_cast<double>(facts.trace.lifetime_bytes(device.trace, lifetime));
      if (rows[i].is_appended) {
        saved[i] += std::max(size - rows[i].bytes_per_step, 0.0);
      } else if (is_retained(lifetime)) {
        saved[i] += size;
      }
    }
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto grown = static_cast<std::uint64_t>(rows[i].grown_bytes);
    sum += std::max(static_cast<std::uint64_t>(std::max(saved[i], 0.0)), grown);
  }
  return sum;
}

void add_steps(const Facts& facts, const DeviceFacts& device, const GrowthRows& rows,
               const OfBackward& left, report::Finding& finding) {
  const report::GrowthRow& first = rows.front();
  if (!first.is_certain && !first.is_of_lbfgs) {
    finding.steps = {
        {"Record at least 12 steps: these are too few to distinguish growth from a cache that "
         "fills."}};
    return;
  }
  const std::uint64_t saving = saving_at_peak(facts, device, rows);
  if (first.is_of_lbfgs) {
    finding.evidence.emplace_back(
        "L-BFGS keeps its last history_size updates (100 if it is not set): memory grows for that "
        "number of iterations and then stays.");
    finding.steps = {step_up_to("If that is too much, pass a smaller history_size.", saving)};
    return;
  }
  if (first.is_of_calls) {
    finding.evidence.emplace_back("If the program collects results on purpose, nothing is wrong.");
    if (retained_by(facts, device, rows) == Retained::kGraphs) {
      finding.steps.push_back(step_up_to(
          "No backward runs, so call the model under torch.no_grad() or torch.inference_mode(): "
          "without them, each result retains the graph that made it (a key-value cache retains "
          "those of all earlier steps).",
          saving));
    }
  }
  const Texts texts =
      first.is_appended ? Texts{append_text(first)} : retained_texts(facts, device, rows, left);
  for (const std::string& text : texts) finding.steps.push_back(step_up_to(text, saving));
}

// `rows` are lines or, if each line alone grows too little to report, categories.
report::Finding make_finding(const Facts& facts, const DeviceFacts& device,
                             const GrowthRows& rows) {
  report::Finding finding;
  double per_step = 0;
  std::uint64_t grown = 0;
  for (const report::GrowthRow& row : rows) {
    per_step += row.bytes_per_step;
    grown += static_cast<std::uint64_t>(row.grown_bytes);
  }
  const report::GrowthRow& first = rows.front();
  const auto live =
      static_cast<std::uint64_t>(std::max<std::int64_t>(device.report.live_totals().end_bytes, 0));
  const bool is_each = std::ranges::all_of(rows, is_every_step);
  finding.id = "memory_growth";
  finding.severity = !first.is_certain || first.is_of_calls ? report::FindingSeverity::kInfo
                     : is_at_least(grown, kCriticalShareOfLive, live)
                         ? report::FindingSeverity::kCritical
                         : report::FindingSeverity::kWarning;
  finding.title = "Memory on " + device.name + (first.is_certain ? " grows by " : " may grow by ") +
                  rate_text(per_step) + (is_each ? "" : " on average") + ", by " +
                  bytes_text(grown) + " in this recording";
  add_rows(rows, finding);
  const report::Tables& tables = facts.report.tables;
  if (!first.line.empty()) {
    add_kind("category", tables.growth_by_category, device.report.device, finding);
  }
  add_kind("layer", tables.growth_by_layer, device.report.device, finding);
  const OfBackward left = of_backward(facts, device);
  if (left.graph_rate > 0) {
    finding.evidence.push_back(rate_text(left.graph_rate) +
                               " are tensors that backward makes: create_graph=True keeps them, "
                               "and the graph behind them.");
  }
  finding.evidence.push_back(steps_text(first));
  if (first.is_certain && device.report.last_use) {
    const std::vector<std::size_t> row_of_line = row_of_each_line(facts, rows);
    const std::string unused = unused_text(
        facts, device, [&](model::LineId line) { return row_of_line[line.index()] < rows.size(); });
    if (!unused.empty()) finding.evidence.push_back(unused);
  }
  if (first.is_of_lbfgs) finding.severity = report::FindingSeverity::kInfo;
  add_steps(facts, device, rows, left, finding);
  return finding;
}

// A model that gets new parts in a few stages is reported as a fact: it may be intended.
report::Finding model_in_stages(const DeviceFacts& device, const GrowthRows& rows) {
  report::Finding finding;
  std::int64_t first_bytes = 0, last_bytes = 0;
  std::uint64_t stages = 0;
  for (const report::GrowthRow& row : rows) {
    first_bytes += row.first_bytes;
    last_bytes += row.last_bytes;
    stages = std::max(stages, row.stages);
    if (finding.evidence.size() == kGrowthLinesNamed) continue;
    finding.evidence.push_back((row.line.empty() ? "Of the category " : "At ") + place_text(row) +
                               ": " + bytes_text(row.first_bytes) + " at the end of step " +
                               base::format_count(row.first_step) + ", " +
                               bytes_text(row.last_bytes) + " at the end of step " +
                               base::format_count(row.steps) + ".");
  }
  const report::GrowthRow& first = rows.front();
  finding.id = "memory_growth";
  finding.severity = report::FindingSeverity::kInfo;
  finding.title = "The model on " + device.name + " grew in " + counted(stages, "stage") +
                  ": parts of it from " + bytes_text(first_bytes) + " to " + bytes_text(last_bytes);
  finding.evidence.push_back(
      "These are parameters and buffers, with their gradients and optimizer state. " +
      base::format_count(first.grown_steps) + " of " + compared_text(first) +
      " that are compared add to them." + boundary_text(first.boundary));
  finding.evidence.emplace_back(
      "If the model gets new parts on purpose (a head for each task, a block for each stage), "
      "nothing is wrong.");
  finding.steps = {{"Make the model and its optimizer once, before the loop."}};
  return finding;
}

// Removes and returns the rows of a model that grows in stages.
GrowthRows take_stages(GrowthRows& rows) {
  const auto stages = std::ranges::stable_partition(rows, [](const report::GrowthRow& row) {
    return !row.is_model_in_stages || row.is_of_lbfgs;
  });
  GrowthRows taken(stages.begin(), stages.end());
  rows.erase(stages.begin(), stages.end());
  return taken;
}

// The rows of a device to report: lines, or categories if no line grows enough to be a row.
struct RowsToReport {
  GrowthRows rows;
  GrowthRows stages;  // of a model that grows in stages
};

RowsToReport rows_to_report(const Facts& facts, const DeviceFacts& device) {
  const report::Tables& tables = facts.report.tables;
  RowsToReport found;
  for (const GrowthRows* table : {&tables.growth, &tables.growth_by_category}) {
    found.rows = rows_of(*table, device.report.device);
    found.stages = take_stages(found.rows);
    if (!found.rows.empty() || !found.stages.empty()) break;
  }
  return found;
}

}  // namespace

Findings memory_growth(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const GrowthRows rows = rows_to_report(facts, device).rows;
    if (!rows.empty()) findings.push_back(make_finding(facts, device, rows));
  }
  return findings;
}

Findings model_growth(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const GrowthRows stages = rows_to_report(facts, device).stages;
    if (!stages.empty()) findings.push_back(model_in_stages(device, stages));
  }
  const auto is_of_copies = [](const report::Finding& each) { return each.id == "model_copies"; };
  if (!findings.empty() && std::ranges::any_of(what_fills_the_peak(facts), is_of_copies)) return {};
  return findings;
}

}  // namespace plimsoll::findings
