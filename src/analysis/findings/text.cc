#include "analysis/findings/text.h"

#include <algorithm>

#include "base/units.h"
#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

constexpr std::size_t kNamed = 3;  // lines named in one sentence, or sentences about lines

}  // namespace

std::string bytes_text(std::int64_t bytes) { return base::format_bytes(bytes); }
std::string bytes_text(std::uint64_t bytes) {
  return base::format_bytes(static_cast<std::int64_t>(bytes));
}

std::string rate_text(double bytes_per_step) {
  constexpr double kMost = 9e18;  // what an integer holds, whatever a file says
  return bytes_text(static_cast<std::int64_t>(std::clamp(bytes_per_step, -kMost, kMost))) +
         " a step";
}

Retained retained_in(std::string_view category) {
  const bool is_of_model = category == model::kParameter || category == model::kBuffer ||
                           category == model::kOptimizerState;
  if (is_of_model) return Retained::kModel;
  return category == model::kActivation ? Retained::kGraphs : Retained::kTensors;
}

std::string free_advice(const std::string& holder, std::int32_t device, Retained retained,
                        const report::GrowthRow* row) {
  if (retained == Retained::kModel) {
    const bool is_each = row != nullptr && row->grown_steps == row->compared_steps;
    const char* how_often = is_each ? "at every step" : "again and again";
    return "Make the model and its optimizer once, before the loop: " + holder + " adds to them " +
           how_often + " (add_param_group, a new module, parameter or optimizer).";
  }
  // A copy on the CPU frees nothing of the CPU's.
  const bool is_cpu = device < 0;
  std::string instead = is_cpu ? "Store .item() or .detach() values instead"
                               : "Store .item() or .detach().cpu() values instead";
  if (retained == Retained::kTensors) {
    instead = is_cpu ? "Store .item() values instead, or write the tensors to a file"
                     : "Store .item() or .cpu() values instead";
  } else if (retained == Retained::kOutputs && is_cpu) {
    instead =
        "Store .item() values instead, or .detach().clone() of the part that you need: a slice "
        "retains the whole tensor";
  }
  return "Free what " + holder + " retains from step to step" +
         (retained == Retained::kGraphs ? ", and the graphs that it retains" : "") +
         ": usually a list, dict or attribute that collects tensors. " + instead + ".";
}

std::string_view growing_category(const report::Tables& tables, std::int32_t device) {
  const auto first =
      std::ranges::find(tables.growth_by_category, device, &report::GrowthRow::device);
  return first == tables.growth_by_category.end() ? std::string_view() : first->key;
}

std::string counted(std::uint64_t count, const char* singular) {
  return base::format_count(count) + " " + singular + (count == 1 ? "" : "s");
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

}  // namespace plimsoll::analysis::findings
