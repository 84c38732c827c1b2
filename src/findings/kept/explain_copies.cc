// model_copies: copies of a model that a program keeps in addition to the one that it trains.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "findings/peak/peak.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

// A copy contains almost all parameters; a smaller set is not one.
constexpr double kShareOfParameters = 0.8;
constexpr std::uint64_t kLargeModel = std::uint64_t{4} << 20;
constexpr double kLeastShareOfModel = 0.001;

// The model that owns a tensor, and the model's class: "Net" and "Net" for "Net.fc.weight"; "Net#2"
// (the second Net) and "Net" for "Net#2.fc.weight".
struct ModelName {
  std::string_view name;
  std::string_view kind;
};
ModelName model_name_of(std::string_view tensor) {
  const std::string_view name = tensor.substr(0, tensor.find('.'));
  return {name, name.substr(0, name.find('#'))};
}

struct Model {
  std::set<std::uint64_t> sizes;  // without scalars and biases
  Explanation of;                 // its parameters and buffers
};
using Models = std::map<std::string_view, Model>;

bool is_owned(const Allocation& each) { return each.is(model::kParameter, model::kBuffer); }
bool is_of_training_of_it(const Allocation& each) {
  return each.is(model::kGradient, model::kOptimizerState);
}

Models models_of(const Peak& peak) {
  Models models;
  for (const Allocation& each : peak.live()) {
    if (!is_owned(each) || each.name().empty()) continue;
    Model& model = models[model_name_of(each.name()).name];
    model.of.add(each);
    if (each.size_bytes >= kSmallTensorBytes) model.sizes.insert(each.size_bytes);
  }
  return models;
}

// Models of the same class with the same parameters, except the one that is trained most.
std::set<std::string_view> twins_of(const Peak& peak, const Models& models) {
  std::map<std::string_view, std::uint64_t> trained;  // gradients and state in the recording
  peak.for_each([&](const Allocation& each) {
    if (is_of_training_of_it(each)) trained[model_name_of(each.name()).name] += each.size_bytes;
  });
  std::map<std::string_view, std::string_view> originals;  // by class
  std::set<std::string_view> twins;
  for (const auto& [name, model] : models) {
    const std::string_view kind = model_name_of(name).kind;
    const auto first = models.find(kind);
    if (first == models.end() || first->second.of.bytes != model.of.bytes ||
        first->second.sizes != model.sizes) {
      continue;
    }
    twins.insert(name);
    const auto [original, is_new] = originals.try_emplace(kind, name);
    if (trained[name] > trained[original->second]) original->second = name;
  }
  for (const auto& [kind, original] : originals) twins.erase(original);
  return twins;
}

// The bytes of the tensors, converted to the model's dtype; 0 if they are not copies of the model.
// Their elements may be half or twice as large.
std::uint64_t as_model_bytes(const std::set<std::uint64_t>& sizes, std::uint64_t bytes,
                             const Model& model) {
  if (model.sizes.size() > 2 && sizes.size() < 2) return 0;
  const auto all_known = [&](auto&& in_model) {
    return std::ranges::all_of(
        sizes, [&](std::uint64_t size) { return model.sizes.contains(in_model(size)); });
  };
  if (all_known([](std::uint64_t size) { return size; })) return bytes;
  if (all_known([](std::uint64_t size) { return size / 2; })) return bytes / 2;
  if (all_known([](std::uint64_t size) { return size * 2; })) return bytes * 2;
  return 0;
}

// Whether a forward makes it, and it outlives that forward.
bool is_of_earlier_forward(const Allocation& each) {
  const evidence::Evidence& evidence = each.known->evidence;
  return each.is(model::kActivation) &&
         each.died > evidence.next_pass(evidence.pass_of(each.lifetime));
}

bool may_be_snapshot(const Allocation& each) {
  const bool is_of_program = each.is(model::kOtherCategory, model::kUnknownCategory);
  return (is_of_program || is_of_earlier_forward(each)) && each.has_line() &&
         each.phase() != model::Phase::kOptimizer && each.size_bytes >= 4 * kSmallTensorBytes &&
         !each.op().has(evidence::Operator::kRandom);
}

// Adds tensors from one line that are neither parameters nor made by training, and that have the
// sizes of a model's parameters. Sizes do not match a large model by chance; for a smaller model,
// the tensors must have several sizes and come from a copying operator.
// Returns the lines.
std::set<std::uint32_t> add_snapshots(const Peak& peak, const Models& models,
                                      Explanation& explanation, std::vector<std::string>& names) {
  // Results of a forward have the dtype of the model; parameters that it converts do not.
  std::map<std::pair<std::uint32_t, std::string_view>, Explanation> lines;
  for (const Allocation& each : peak.live()) {
    if (!may_be_snapshot(each)) continue;
    lines[{each.line().value, is_of_earlier_forward(each) ? each.dtype() : ""}].add(each);
  }
  std::set<std::uint32_t> found;
  for (const auto& [key, line] : lines) {
    const auto [id, dtype] = key;
    std::set<std::uint64_t> sizes;
    for (const Allocation& each : line.parts) sizes.insert(each.size_bytes);
    const bool is_copied = std::ranges::all_of(line.parts, [](const Allocation& each) {
      return each.op().has(evidence::Operator::kClone);
    });
    for (const auto& [name, model] : models) {
      const std::uint64_t whole = model.of.bytes;
      if (model.of.parts.front().get().dtype() == dtype) continue;
      const bool is_sure = whole >= kLargeModel || (is_copied && sizes.size() >= 2);
      if (!is_sure || !is_at_least(whole, kLeastShareOfModel, peak.bytes())) continue;
      const std::uint64_t bytes = as_model_bytes(sizes, line.bytes, model);
      if (!is_at_least(bytes, kShareOfParameters, whole)) continue;
      for (const Allocation& each : line.parts) explanation.add(each);
      found.insert(id);
      names.push_back(counted((bytes + whole / 2) / whole, "snapshot") + " of " +
                      std::string(name));
      break;
    }
  }
  return found;
}

}  // namespace

void explain_copies(Peak& peak, Explanations& out) {
  const Models models = models_of(peak);
  const std::set<std::string_view> twins = twins_of(peak, models);
  const std::set<std::uint32_t> of_others = claimed(out);
  const auto is_twins = [&](const Allocation& each) {
    return twins.contains(model_name_of(each.name()).name);
  };
  const auto is_trained = [&](const Allocation& each) {
    return is_of_training_of_it(each) && is_twins(each);
  };
  Explanation explanation(peak.live_if([&](const Allocation& each) {
    return (is_owned(each) && is_twins(each)) ||
           (is_trained(each) && !of_others.contains(each.lifetime));
  }));
  std::vector<std::string> names(twins.begin(), twins.end());
  const std::set<std::uint32_t> lines = add_snapshots(peak, models, explanation, names);
  if (!peak.is_much(explanation.bytes, kLeastShareOfMistake)) return;
  const Parts& parts = explanation.parts;
  report::Finding& finding = explanation.finding;
  finding.id = "model_copies";
  finding.title = "Copies of the model are " + amount_text(peak, explanation.bytes);
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  finding.evidence.push_back("They are " + list + ".");
  if (names.size() > twins.size()) {
    finding.evidence.push_back(
        "Snapshots are recognized by the sizes of the parameters, which copies of gradients have "
        "too.");
  }
  const auto [line, of_line] = line_of_most(parts);
  finding.evidence.push_back(bytes_text(of_line) + " of them are created at " + line + ".");
  const std::uint64_t gradients =
      bytes_of(those_of(parts, [](const Allocation& each) { return each.is(model::kGradient); }));
  const std::uint64_t state = bytes_of(
      those_of(parts, [](const Allocation& each) { return each.is(model::kOptimizerState); }));
  if (gradients + state > 0) {
    finding.evidence.push_back("With them come " + bytes_text(gradients) + " of gradients and " +
                               bytes_text(state) + " of optimizer state.");
  }
  const Parts loaded = those_of(
      parts, [](const Allocation& each) { return each.has(evidence::StackFlag::kLoaded); });
  if (bytes_of(loaded) * 2 >= explanation.bytes) {
    explanation.kind = Kind::kMistake;
    const std::string from = line_of_most(loaded).first;
    finding.evidence.push_back(bytes_text(bytes_of(loaded)) +
                               " of them were loaded from a file at " + from +
                               ", and are still live.");
    // Until load_state_dict() has copied it, it has to be live.
    finding.steps = {step_up_to(
        "Free what " + from +
            " loads when load_state_dict() has copied it: del it, or load it inside a function. "
            "Load each file once.",
        peak.replay().never_made(rows_of(loaded)))};
    out.push_back(std::move(explanation));
    return;
  }
  explanation.kind = Kind::kCause;
  const std::uint64_t of_all = peak.saving_without([&](const Allocation& each) {
    return (is_owned(each) && is_twins(each)) || is_trained(each) ||
           (lines.contains(each.line().value) && may_be_snapshot(each));
  });
  if (bytes_of(those_of(parts, is_of_earlier_forward)) * 2 >= explanation.bytes) {
    finding.steps = {
        {"Convert the model itself (model.to(dtype)), or end torch.autocast after each forward: "
         "until it ends, its cache keeps the converted parameters (cache_enabled=False).",
         of_all}};
    out.push_back(std::move(explanation));
    return;
  }
  if (state > 0) {
    finding.steps.push_back(
        {"If these models are trained one after the other (folds, trials), keep the score or the "
         "weights of each in a file, and delete the model and its optimizer before the next is "
         "made.",
         of_all});
  } else if (gradients > 0) {
    finding.steps.push_back({"Call requires_grad_(False) on a copy that is not trained.",
                             peak.saving_without(is_trained)});
  }
  finding.steps.push_back(
      step_up_to("Keep fewer copies, or move those that a step does not use (a snapshot, an "
                 "average of the weights) to another device or to a file.",
                 of_all));
  finding.steps.push_back({"Keep the copies in bfloat16."});
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings
