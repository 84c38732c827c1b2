#include "comparison/cause_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <set>
#include <utility>

#include "base/units.h"

namespace plimsoll::comparison {
namespace {

constexpr std::size_t kMostNames = 3;

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

std::string plain_operator(std::string_view op) {
  constexpr std::string_view kPrefix = "aten::";
  return std::string(op.starts_with(kPrefix) ? op.substr(kPrefix.size()) : op);
}

// The operators of the largest rows: "softmax, masked_fill and matmul".
std::string operators_in(const std::vector<PairAtPoint>& rows) {
  std::vector<std::string> names;
  std::size_t others = 0;
  for (const PairAtPoint& row : rows) {
    const std::string name = plain_operator(row.key().op);
    if (std::ranges::find(names, name) != names.end()) continue;
    if (names.size() < kMostNames) {
      names.push_back(name);
    } else {
      ++others;
    }
  }
  if (others > 0) names.push_back("others");
  return listed(names);
}

std::uint64_t count_of(const std::vector<PairAtPoint>& rows,
                       std::uint64_t (PairAtPoint::*count)() const) {
  std::uint64_t sum = 0;
  for (const PairAtPoint& row : rows) sum += (row.*count)();
  return sum;
}

std::string where_text(const report::DigestKey& key) {
  return key.layer.empty() ? key.function : key.layer;
}

// The layer that all rows have; else how many there are.
std::string where_text(const std::vector<PairAtPoint>& rows) {
  std::set<std::string> layers;
  for (const PairAtPoint& row : rows) layers.insert(where_text(row.key()));
  if (layers.size() == 1) return *layers.begin();
  return base::counted(layers.size(), "layer");
}

std::int64_t bytes_in(const report::DigestRow& row, const std::string& layer) {
  const auto found = std::ranges::find(row.uneven, layer, &report::DigestInstance::layer);
  return found == row.uneven.end() ? row.instance_bytes : found->bytes;
}

// " (only in Net.blocks.0)", if a few repetitions of a block differ and the others do not.
std::string exceptions_text(const PairAtPoint& row) {
  if (row.before == nullptr || row.after == nullptr || row.after->instances < 2 ||
      row.before->instances != row.after->instances ||
      row.before->instance_bytes != row.after->instance_bytes) {
    return {};
  }
  std::set<std::string> layers;
  for (const report::DigestRow* side : {row.before, row.after}) {
    for (const report::DigestInstance& each : side->uneven) {
      if (bytes_in(*row.before, each.layer) != bytes_in(*row.after, each.layer)) {
        layers.insert(each.layer);
      }
    }
  }
  if (layers.empty() || layers.size() > kMostNames) return {};
  return " (only in " + listed({layers.begin(), layers.end()}) + ")";
}

std::string verb_of(std::string_view id) {
  static constexpr std::pair<std::string_view, const char*> kVerbs[] = {
      {"now_saved", ", now saved"},
      {"no_longer_saved", ", no longer saved"},
      {"longer_lived", ", not yet freed here"},
      {"shorter_lived", ", already freed here"},
      {"new", ", new"},
      {"removed", ", gone"},
  };
  for (const auto& [name, verb] : kVerbs) {
    if (name == id) return verb;
  }
  return {};
}

}  // namespace

std::string factor_text(double factor) {
  char text[32];
  std::snprintf(text, sizeof text, "× %.3g", factor);
  return text;
}

std::string names_text(const std::vector<report::DigestModule>& modules) {
  std::vector<std::string> names;
  std::string parent;
  for (const report::DigestModule& module : modules) {
    if (names.size() == kMostNames) break;
    const std::size_t name = module.path.rfind('.') + 1;
    const bool is_sibling = !names.empty() && module.path.substr(0, name) == parent;
    names.push_back(module.path.substr(is_sibling ? name : 0));
    parent = module.path.substr(0, name);
    if (!module.type.empty()) names.back() += " (" + module.type + ")";
  }
  if (names.size() < modules.size()) {
    names.push_back(std::to_string(modules.size() - names.size()) + " more");
  }
  return listed(names);
}

std::string modules_text(const std::vector<report::DigestModule>& modules) {
  const std::uint64_t instances = modules.front().instances;
  std::string text = instances > 1 ? std::to_string(instances) + " × " : "";
  return text + (modules.size() == 1 ? "module " : "modules ") + names_text(modules);
}

std::string shapes_text(const PairAtPoint& row) {
  const std::string& before = row.before->shape;
  const std::string& after = row.after->shape;
  if (before.empty() || after.empty() || before == after) return {};
  return ": " + before + " → " + after;
}

std::string rows_text(std::string_view id, const std::vector<PairAtPoint>& rows) {
  const std::uint64_t before = count_of(rows, &PairAtPoint::before_count);
  const std::uint64_t after = count_of(rows, &PairAtPoint::after_count);
  std::string text = base::format_count(after > 0 ? after : before) + " × ";
  text += rows.front().key().category + " of " + operators_in(rows) + " in " + where_text(rows);
  if (before > 0 && after > 0 && before != after) {
    text += ", was " + base::format_count(before) + " ×";
  }
  if (id == "more_kept" && before == 0) text += ", kept after the step";
  return text + verb_of(id) + exceptions_text(rows.front());
}

std::string replaced_text(const std::vector<PairAtPoint>& gone,
                          const std::vector<PairAtPoint>& added) {
  const auto bytes_of = [](const std::vector<PairAtPoint>& rows) {
    std::int64_t sum = 0;
    for (const PairAtPoint& row : rows) sum += row.difference();
    return base::bytes_text(std::abs(sum));
  };
  return operators_in(added) + " (" + bytes_of(added) + ") instead of " + operators_in(gone) +
         " (" + bytes_of(gone) + ") in " + where_text(added.front().key());
}

namespace {

// More or larger allocations of a category that nothing retains, or that is to be retained.
std::string_view step_for_category(std::string_view category) {
  static constexpr std::pair<std::string_view, std::string_view> kSteps[] = {
      {"parameter", "Check that the additional parameters are needed: "},
      {"buffer", "Check that the additional buffers are needed: "},
      {"gradient", "Check that these gradients are needed here, and where zero_grad() is called: "},
      {"optimizer_state", "Check the type and the options of the optimizer: "},
      {"optimizer_scratch", "Check the options of the optimizer, such as foreach: "},
      {"activation_gradient", "Check which operators of backward run here: "},
      {"temporary", "Check which operators need more scratch memory here: "},
      {"workspace", "Check which library needs a larger workspace: "},
      {"communication", "Check the bucket sizes of DDP or the units of FSDP: "},
  };
  for (const auto& [name, step] : kSteps) {
    if (name == category) return step;
  }
  return {};
}

// As an imperative; empty if there is none.
std::string step_for(const DiffCause& cause) {
  if (cause.is_foreach && cause.category == "optimizer_scratch") {
    return "Pass foreach=False to the optimizer, which now updates all parameters together: " +
           cause.place + ".";
  }
  if (cause.id == "more_kept" && cause.subject == "activation") {
    return "Find what retains the results of these layers, such as a hook that stores them, and "
           "clear it: " +
           cause.place + ".";
  }
  if (cause.id == "new" && cause.is_known_line && !cause.place.starts_with('[')) {
    const std::string_view of_category = step_for_category(cause.category);
    return std::string(of_category.empty() ? "Check why this line allocates more than before: "
                                           : of_category) +
           cause.place + ".";
  }
  static constexpr std::pair<std::string_view, std::string_view> kSteps[] = {
      {"module_added", "Check that the new module is needed: "},
      {"scaled", "Check what became larger (batch, sequence, image, width or optimizer): "},
      {"dtype_changed", "Check where the dtype is set: "},
      {"size_changed", "Check the width of "},
      {"now_saved",
       "Compute it without saving it for backward (a fused operator, checkpoint, no_grad): "},
      {"longer_lived", "Free it before this point: "},
      {"kept_each_step",
       "Find what keeps more of it each step, such as a list to which losses are appended without "
       ".item() or .detach(); plimsoll report lists it under memory_growth: "},
      {"graph_kept",
       "Find what keeps the graph after backward, such as retain_graph=True, a loss that is not "
       "detached, or a hook that stores outputs: "},
      {"more_kept", "Find what retains the results of this line, and clear it: "},
      {"replaced", "Check whether the earlier operator would still work: "},
      {"new", "Check that the new line is needed: "},
      {"grew", "Check what became larger at this line: "},
  };
  for (const auto& [id, step] : kSteps) {
    if (id != cause.id) continue;
    const bool is_of_layer = id == "module_added" || id == "scaled" || id == "size_changed" ||
                             id == "dtype_changed" || cause.place.empty();
    if (!is_of_layer && cause.place.starts_with('[')) return {};  // no line: [library workspace]
    const bool is_of_results = id == "more_kept" || id == "longer_lived" || id == "grew";
    const std::string_view of_category =
        is_of_results ? step_for_category(cause.category) : std::string_view();
    return std::string(of_category.empty() ? step : of_category) +
           (is_of_layer ? cause.subject : cause.place) + ".";
  }
  return {};
}

}  // namespace

std::vector<FindingStep> steps_of(const DiffCause& cause, std::int64_t saving_bytes,
                                  std::int64_t held_bytes) {
  if (cause.difference_bytes <= 0) return {};
  const auto saving = static_cast<std::uint64_t>(std::max<std::int64_t>(saving_bytes, 0));
  const auto held = static_cast<std::uint64_t>(std::max<std::int64_t>(held_bytes, 0));
  std::vector<FindingStep> steps;
  if (std::string text = step_for(cause); !text.empty()) {
    steps.push_back(step_up_to(std::move(text), saving));
  }
  if (cause.edit.empty() || cause.holders.empty()) return steps;
  // Instead of the advice to find what the recording knows.
  static constexpr std::string_view kAreHeld[] = {"kept_each_step", "graph_kept", "more_kept",
                                                  "longer_lived", "now_saved"};
  if (std::ranges::find(kAreHeld, cause.id) != std::end(kAreHeld)) steps.clear();
  steps.push_back(step_up_to(cause.edit, std::min(held, cause.holders.front().bytes)));
  return steps;
}

}  // namespace plimsoll::comparison
