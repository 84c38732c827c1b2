#include "findings/text.h"

#include <algorithm>

#include "base/units.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

constexpr std::size_t kNamed = 3;  // lines named in one sentence, or sentences about lines

// How many elements the retained tensors of a line have, judged by their mean size.
enum class Elements : std::uint8_t { kUnknown, kOne, kMany };

Elements elements_of(const report::GrowthRow* row, std::int32_t device) {
  constexpr std::uint64_t kLargestElement = 8;   // float64, int64
  constexpr std::uint64_t kSmallestBlock = 512;  // of the CUDA allocator
  if (row == nullptr || row->survivors == 0) return Elements::kUnknown;
  const std::uint64_t size = static_cast<std::uint64_t>(row->grown_bytes) / row->survivors;
  return size <= (device < 0 ? kLargestElement : kSmallestBlock) ? Elements::kOne : Elements::kMany;
}

// What to store instead. `.item()` raises for a tensor of several elements.
std::string instead_of_tensors(bool is_cpu, Retained retained, Elements elements) {
  // A graph is often retained by the loss, however large the tensors of the graph are.
  const bool is_any = elements == Elements::kUnknown || retained == Retained::kGraphs;
  if (retained == Retained::kMadeWithoutGraph) {
    return std::string("They have no graph. Instead, store only the part that you need") +
           (is_cpu ? "" : ", or .cpu() of it") +
           "; if that is a view or a slice, its .clone(): a view retains the whole tensor";
  }
  if (is_any) {
    return std::string("Instead, store .item() of a single number such as a loss, and ") +
           (is_cpu ? ".detach()" : ".detach().cpu()") + " of any other tensor";
  }
  if (elements == Elements::kOne) return "Store .item() values instead";
  if (is_cpu && retained == Retained::kUnknown) {
    return "Store .detach() of what a model makes. Keep fewer of the other tensors, or write them "
           "to a file";
  }
  if (!is_cpu) return "Store .detach().cpu() copies instead, or only the part that you need";
  // A copy on the CPU does not free CPU memory.
  if (retained == Retained::kOutputs) {
    return "Instead, store .detach().clone() of the part that you need (a slice retains the whole "
           "tensor), or compute a metric at each step and store its sums: if a backward has freed "
           "their graphs, .detach() of the whole tensors frees nothing";
  }
  return "Keep fewer of them, or write them to a file";
}

}  // namespace

std::string rate_text(double bytes_per_step) { return bytes_text(bytes_per_step) + " a step"; }

bool is_every_step(const report::GrowthRow& row) {
  return row.steps_each == 1 && row.grown_steps == row.compared_steps;
}

Retained retained_in(std::string_view category) {
  const bool is_of_model = category == model::kParameter || category == model::kBuffer ||
                           category == model::kOptimizerState;
  if (is_of_model) return Retained::kModel;
  if (category.empty()) return Retained::kUnknown;
  // With create_graph=True, the graphs are those that a backward has built.
  const bool is_of_graph = category == model::kActivation || category == model::kActivationGradient;
  return is_of_graph ? Retained::kGraphs : Retained::kTensors;
}

std::string free_advice(const std::string& holder, std::int32_t device, Retained retained,
                        const report::GrowthRow* row) {
  if (retained == Retained::kModel) {
    const bool is_each = row != nullptr && is_every_step(*row);
    const char* how_often = is_each ? "at every step" : "again and again";
    return "Make the model and its optimizer once, before the loop: " + holder + " adds to them " +
           how_often + " (add_param_group, a new module, parameter or optimizer).";
  }
  const bool is_of_some_steps =
      retained == Retained::kGraphs && row != nullptr && row->grown_steps < row->compared_steps;
  const std::string instead = instead_of_tensors(device < 0, retained, elements_of(row, device));
  return "Free what " + holder + " retains from step to step" +
         (retained == Retained::kGraphs ? ", and the graphs that it retains" : "") +
         ": usually a list, dict or attribute that collects tensors" +
         (is_of_some_steps ? ", or exceptions that are stored (each retains its frames; store "
                             "str(exception))"
                           : "") +
         (retained == Retained::kMadeWithoutGraph ? ", maybe in a hook. " : ". ") + instead + ".";
}

std::string_view growing_category(const report::Tables& tables, std::int32_t device) {
  const auto first =
      std::ranges::find(tables.growth_by_category, device, &report::GrowthRow::device);
  return first == tables.growth_by_category.end() ? std::string_view() : first->key;
}

std::string holders_text(std::span<const report::GroupRow> rows) {
  std::string text;
  for (const report::GroupRow& row : rows.first(std::min(kNamed, rows.size()))) {
    text += text.empty() ? "" : ", ";
    text += row.key + " " + bytes_text(row.bytes) + " (" + base::format_percent(row.share) + ")";
  }
  return text;
}

std::vector<std::string> pinning_sentences(std::span<const report::PinningLine> lines) {
  std::vector<std::string> sentences;
  for (const report::PinningLine& line : lines.first(std::min(kNamed, lines.size()))) {
    std::string text = line.line + " pins " + bytes_text(line.pinned_cached_bytes) + " with " +
                       counted(line.blocks, "block") + " of " + bytes_text(line.block_bytes) +
                       " in all";
    if (line.alone_cached_bytes > 0) {
      text += "; " + bytes_text(line.alone_cached_bytes) + " of it alone";
    }
    sentences.push_back(text + ".");
  }
  return sentences;
}

bool is_named(const std::string& line) { return !line.empty() && line.front() != '['; }

std::string what_is_kept(std::span<const report::PinningLine> pinning) {
  if (pinning.empty() || !is_named(pinning.front().line)) return "the long-lived blocks";
  return "what " + pinning.front().line + " keeps";
}

bool is_mostly_in_packages(const report::SiteRow& site) {
  return site.in_packages > site.allocations / 2;
}

bool is_at_least(std::uint64_t part, double share, std::uint64_t whole) {
  return static_cast<double>(part) >= share * static_cast<double>(whole);
}

}  // namespace plimsoll::findings
