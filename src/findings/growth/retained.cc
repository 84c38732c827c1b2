#include "findings/growth/retained.h"

#include <algorithm>
#include <unordered_map>

#include "base/growth_rule.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::findings {
namespace {

using evidence::StackFlag;

// If this share of what lines retain is made by a backward, its graph is retained.
constexpr double kShareOfBackward = 0.1;

// Bytes that the lines of the rows have made and that are live at the peak.
struct Held {
  std::uint64_t all = 0;
  std::uint64_t without_graph = 0, of_graph = 0;  // in forwards
  std::uint64_t may_have_node = 0;                // the part of both that may have a node
  std::uint64_t other_with_node = 0;  // outside forwards, on lines whose operators build nodes
  // Made by backwards that have ended: gradients of activations, what a checkpoint recomputes, and
  // gradients of leaves with their graph, which are not those of an operator.
  std::uint64_t of_backward = 0, recomputed = 0, accumulated = 0;
};

std::vector<bool> lines_that_build_nodes(const Facts& facts) {
  std::vector<bool> lines(facts.lines.line_count());
  for (std::uint32_t id = 0; id < facts.trace.sites.size(); ++id) {
    const model::Site& site = facts.trace.sites[model::SiteId{id}];
    if (site.autograd == model::Autograd::kBuilt)
      lines[facts.lines.line(site.stack).index()] = true;
  }
  return lines;
}

Held held_by(const Facts& facts, const DeviceFacts& device,
             std::span<const report::GrowthRow> rows) {
  Held held;
  const model::Trace& trace = facts.trace;
  const auto peak = device.report.live_totals().peak_event;
  if (!peak || !trace.sites.states(&model::Site::autograd)) return held;
  const evidence::Evidence& evidence = facts.evidence(device.trace).evidence;
  const auto backwards = evidence.spans().backwards();
  const RowOfLine row_of_line = row_of_each_line(facts, rows);
  const std::vector<bool> builds_nodes = lines_that_build_nodes(facts);
  const bool are_unnamed =
      std::ranges::all_of(row_of_line, [](auto* row) { return row == nullptr; });
  for (const std::uint32_t lifetime : model::live_set(
           device.trace, model::default_liveness(device.trace), static_cast<std::int64_t>(*peak))) {
    const model::Site& site = trace.birth(device.trace, lifetime);
    const model::LineId line = facts.lines.line(site.stack);
    if (!are_unnamed && row_of_line[line.index()] == nullptr) continue;
    const std::uint64_t size = trace.lifetime_bytes(device.trace, lifetime);
    const std::string_view category = trace.strings[trace.category(device.trace, lifetime)];
    const std::size_t backward =
        evidence.spans().backward_at(device.trace.lifetimes.alloc[lifetime]);
    held.all += size;
    if (category == model::kActivation) {
      const bool is_off = site.autograd == model::Autograd::kOff;
      (is_off ? held.without_graph : held.of_graph) += size;
      if (!is_off && site.autograd != model::Autograd::kOn) held.may_have_node += size;
    } else if (backward < backwards.size() && backwards[backward].end <= *peak) {
      // Operators of the forward have no forward operator of their own.
      const bool is_recomputed = facts.of_trace.stacks.has(site.stack, StackFlag::kCheckpoint) &&
                                 site.forward_op == model::StringId{};
      if (evidence.op(lifetime).has(evidence::Operator::kAccumulate)) {
        held.accumulated += size;
      } else if (category == model::kActivationGradient) {
        (is_recomputed ? held.recomputed : held.of_backward) += size;
      }
    } else if (site.autograd == model::Autograd::kBuilt ||
               (site.op == model::StringId{} && builds_nodes[line.index()])) {
      held.other_with_node += size;  // a number such as 0.9 is a tensor of no operator
    }
  }
  return held;
}

// Whether each step leaves at most one activation behind, the result of a forward. A graph retains
// several.
bool is_one_a_step(const Facts& facts, const DeviceFacts& device,
                   std::span<const report::GrowthRow> rows) {
  if (rows.size() == 1) return rows.front().survivors <= rows.front().steps;
  std::uint64_t activations = 0;
  for (const report::GrowthRow& row : facts.report.tables.growth_by_category) {
    if (row.device != device.report.device) continue;
    if (row.key == model::kActivationGradient) return false;
    if (row.key == model::kActivation) activations = row.survivors;
  }
  return activations > 0 && !rows.empty() && activations <= rows.front().steps;
}

}  // namespace

// `.item()` raises for a tensor of several elements.
std::string instead_text(const DeviceFacts& device, Retained retained,
                         const report::GrowthRow* row) {
  const bool is_cpu = device.report.device < 0;
  const std::uint64_t smallest = is_cpu ? 8 : 512;  // float64; a block of the CUDA allocator
  const std::uint64_t size = row == nullptr || row->survivors == 0
                                 ? UINT64_MAX
                                 : static_cast<std::uint64_t>(row->grown_bytes) / row->survivors;
  switch (retained) {
    case Retained::kModel:
    case Retained::kGradientsWithGraph:
    case Retained::kGraphsOfBackward:
    case Retained::kRecomputed:
      return {};
    case Retained::kMadeWithoutGraph:
      return std::string("The tensors have no graph. Instead, store only the part that you need") +
             (is_cpu ? "" : ", or .cpu() of it") +
             "; if that is a view or a slice, its .clone(): a view retains the whole tensor.";
    case Retained::kGraphs:
    case Retained::kUnknown:
      // A graph is often retained by the loss, however large the tensors of the graph are.
      return std::string("Instead, store .item() of a single number such as a loss, and ") +
             (is_cpu ? ".detach()" : ".detach().cpu()") + " of any other tensor.";
    default:
      break;
  }
  if (size <= smallest) return "Store .item() values instead.";
  if (!is_cpu) return "Store .detach().cpu() copies instead, or only the part that you need.";
  // A copy on the CPU does not free CPU memory.
  return retained == Retained::kOutputs
             ? "Instead, store .detach().clone() of the part that you need (a slice retains the "
               "whole tensor), or compute a metric at each step and store its sums: if a backward "
               "has freed their graphs, .detach() of the whole tensors frees nothing."
             : "Keep fewer of them, or write them to a file. If a part of each is enough, store "
               "its .clone(): a view retains the whole tensor.";
}

RowOfLine row_of_each_line(const Facts& facts, std::span<const report::GrowthRow> rows) {
  std::unordered_map<std::string_view, const report::GrowthRow*> row_of_label;
  for (const report::GrowthRow& row : rows) {
    if (!row.line.empty()) row_of_label.emplace(row.line, &row);
  }
  RowOfLine row_of_line(facts.lines.line_count());
  for (std::uint32_t id = 0; id < row_of_line.size(); ++id) {
    const auto found = row_of_label.find(facts.lines.label(model::LineId{id}));
    if (found != row_of_label.end()) row_of_line[id] = found->second;
  }
  return row_of_line;
}

double count_per_step(const report::GrowthRow& row) {
  const std::uint64_t steps = std::max<std::uint64_t>(1, row.compared_steps) * row.steps_each;
  return static_cast<double>(row.survivors) / static_cast<double>(steps);
}

bool grows_in_bytes(const report::GrowthRow& row) {
  return row.bytes_per_step >= base::kLeastGrowthPerStep;
}

bool grows_enough(const report::GrowthRow& row) {
  const double objects = static_cast<double>(row.last_count) * base::kTensorObjectBytes;
  const double rate = count_per_step(row) * base::kTensorObjectBytes;
  const bool grows_in_number =
      rate >= base::kLeastGrowthPerStep || objects >= base::kLeastObjectBytes;
  return grows_in_bytes(row) || (row.is_certain && grows_in_number);
}

bool is_every_step(const report::GrowthRow& row) {
  return row.steps_each == 1 && row.grown_steps == row.compared_steps;
}

Retained retained_by(const Facts& facts, const DeviceFacts& device,
                     std::span<const report::GrowthRow> rows) {
  const auto& table = facts.report.tables.growth_by_category;
  const auto most = std::ranges::find(table, device.report.device, &report::GrowthRow::device);
  const std::string_view category = most == table.end() ? std::string_view() : most->key;
  if (category.empty()) return Retained::kUnknown;
  const Held held = held_by(facts, device, rows);
  if (held.recomputed > held.of_backward + held.accumulated) return Retained::kRecomputed;
  const auto least = static_cast<std::uint64_t>(kShareOfBackward * static_cast<double>(held.all));
  if (held.accumulated > least) return Retained::kGradientsWithGraph;
  // A hook may keep gradients without the graph.
  if (held.of_backward > least && held.of_graph * 2 > held.of_backward) {
    return Retained::kGraphsOfBackward;
  }
  const bool is_of_model = category == model::kParameter || category == model::kBuffer ||
                           category == model::kOptimizerState;
  if (is_of_model) return Retained::kModel;
  if (category != model::kActivation && category != model::kActivationGradient) {
    const bool are_several = std::ranges::any_of(
        rows, [](const report::GrowthRow& row) { return row.survivors > row.steps; });
    return are_several && held.other_with_node > least ? Retained::kGraphs : Retained::kTensors;
  }
  // A training step may run at the peak, with activations of the same lines.
  const bool is_mostly_off = held.without_graph > held.of_graph;
  const bool has_no_node = held.without_graph + held.of_graph > 0 && held.may_have_node == 0;
  if (is_mostly_off || has_no_node) return Retained::kMadeWithoutGraph;
  return is_one_a_step(facts, device, rows) ? Retained::kOutputs : Retained::kGraphs;
}

std::string free_advice(const DeviceFacts& device, const std::string& name, Retained retained,
                        const report::GrowthRow* row) {
  const bool is_each = row != nullptr && is_every_step(*row);
  if (retained == Retained::kModel) {
    return "Make the model and its optimizer once, before the loop: " + name + " adds to them " +
           (is_each ? "at every step" : "again and again") +
           " (add_param_group, a new module, parameter or optimizer).";
  }
  if (retained == Retained::kGradientsWithGraph) {
    return "Call torch.autograd.grad(…, create_graph=True) instead of backward, or set .grad to "
           "None after use, also of each copy of the model: a .grad with a graph refers to its "
           "parameter, so neither is ever freed.";
  }
  if (retained == Retained::kGraphsOfBackward) {
    return "Pass create_graph=True only if you differentiate through the gradient, and store only "
           ".detach() of what " +
           name + " collects.";
  }
  if (retained == Retained::kRecomputed) {
    return "Do not keep what runs inside checkpoint(): backward recomputes it, and " + name +
           " retains the result at every step. Use saved_tensors_hooks, save_on_cpu and lists that "
           "collect tensors outside of checkpoint(), or call the function without it.";
  }
  std::string text = "Free what " + name + " retains from step to step";
  const char* collects = ": usually a list, dict or attribute that collects tensors";
  if (retained == Retained::kGraphs) {
    text += std::string(", and the graphs that it retains") + collects;
    if (row != nullptr && row->grown_steps < row->compared_steps) {
      text += ", or exceptions that are stored (each retains its frames; store str(exception))";
    }
  } else {
    text += collects;
  }
  text += retained == Retained::kMadeWithoutGraph ? ", maybe in a hook. " : ". ";
  return text + instead_text(device, retained, row);
}

}  // namespace plimsoll::findings
