// model_copies: copies of a model that a program keeps in addition to the one that it trains.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
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
  std::multiset<std::uint64_t> sizes;
  std::set<std::uint64_t> distinct_sizes;
  std::vector<std::uint32_t> parts;
  std::uint64_t bytes = 0;
};

bool is_owned(std::string_view category) {
  return category == model::kParameter || category == model::kBuffer;
}

std::map<std::string_view, Model> models_of(const Peak& peak) {
  std::map<std::string_view, Model> models;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!is_owned(peak.category(allocation))) continue;
    const std::string_view name = peak.trace().strings[peak.tensor(allocation).name];
    if (name.empty()) continue;
    Model& model = models[model_name_of(name).name];
    model.parts.push_back(part);
    model.bytes += allocation.size_bytes;
    if (allocation.size_bytes < kSmallTensorBytes) continue;
    model.sizes.insert(allocation.size_bytes);
    model.distinct_sizes.insert(allocation.size_bytes);
  }
  return models;
}

// What a copy of the model brings in addition to its parameters and buffers.
struct Belongings {
  std::set<std::string_view> models;  // names of the copies
  std::uint64_t gradients = 0;
  std::uint64_t optimizer_state = 0;

  bool have(const Peak& peak, const PeakAllocation& allocation) const {
    const std::string_view category = peak.category(allocation);
    if (category != model::kGradient && category != model::kOptimizerState) return false;
    const std::string_view name = peak.trace().strings[peak.tensor(allocation).name];
    return models.contains(model_name_of(name).name);
  }
};

void add_belongings(const Peak& peak, const std::vector<bool>& is_claimed, Explanation& explanation,
                    Belongings& belongings) {
  if (belongings.models.empty()) return;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (is_claimed[part] || !belongings.have(peak, allocation)) continue;
    explanation.add(peak, part);
    (peak.category(allocation) == model::kGradient ? belongings.gradients
                                                   : belongings.optimizer_state) +=
        allocation.size_bytes;
  }
}

// The bytes of gradients and optimizer state that the recording has for each model.
std::map<std::string_view, std::uint64_t> trained_bytes(const Peak& peak) {
  std::map<std::string_view, std::uint64_t> bytes;
  peak.for_each([&](const PeakAllocation& allocation) {
    const std::string_view category = peak.category(allocation);
    if (category != model::kGradient && category != model::kOptimizerState) return;
    const std::string_view name = peak.trace().strings[peak.tensor(allocation).name];
    bytes[model_name_of(name).name] += allocation.size_bytes;
  });
  return bytes;
}

// Adds models of the same class with the same parameters, except the one that is trained most.
void add_twins(const Peak& peak, const std::map<std::string_view, Model>& models,
               const std::vector<bool>& is_claimed, Explanation& explanation,
               std::vector<std::string>& names, Belongings& belongings) {
  auto trained = trained_bytes(peak);
  std::map<std::string_view, std::string_view> originals;  // by class
  const auto is_like_first = [&](std::string_view kind, const Model& model) {
    const auto first = models.find(kind);
    return first != models.end() && first->second.sizes == model.sizes;
  };
  for (const auto& [name, model] : models) {
    const std::string_view kind = model_name_of(name).kind;
    if (!is_like_first(kind, model)) continue;
    const auto [original, is_new] = originals.try_emplace(kind, name);
    if (trained[name] > trained[original->second]) original->second = name;
  }
  for (const auto& [name, model] : models) {
    const std::string_view kind = model_name_of(name).kind;
    if (!is_like_first(kind, model) || originals[kind] == name) continue;
    for (const std::uint32_t part : model.parts) explanation.add(peak, part);
    names.emplace_back(name);
    belongings.models.insert(name);
  }
  add_belongings(peak, is_claimed, explanation, belongings);
}

// The bytes of the tensors, converted to the model's dtype; 0 if they are not copies of the model.
// Their elements may be half or twice as large.
std::uint64_t as_model_bytes(const std::set<std::uint64_t>& sizes, std::uint64_t bytes,
                             const Model& model) {
  const std::set<std::uint64_t>& distinct = model.distinct_sizes;
  if (distinct.size() > 2 && sizes.size() < 2) return 0;
  const auto all_known = [&](auto&& in_model) {
    return std::ranges::all_of(
        sizes, [&](std::uint64_t size) { return distinct.contains(in_model(size)); });
  };
  if (all_known([](std::uint64_t size) { return size; })) return bytes;
  if (all_known([](std::uint64_t size) { return size / 2; })) return bytes / 2;
  if (all_known([](std::uint64_t size) { return size * 2; })) return bytes * 2;
  return 0;
}

// Whether the tensors are a copy of the model. Sizes do not match a large model by chance; for a
// smaller model, the tensors must have several sizes and come from a copying operator.
bool is_copy_of(const Model& model, const std::set<std::uint64_t>& sizes, bool is_copied) {
  return model.bytes >= kLargeModel || (is_copied && sizes.size() >= 2);
}

// Adds tensors from one line that are neither parameters nor made by training, and that have the
// sizes of a model's parameters.
void add_snapshots(const Peak& peak, const std::map<std::string_view, Model>& models,
                   Explanation& explanation, std::vector<std::string>& names) {
  struct Snapshot {
    std::vector<std::uint32_t> parts;
    std::uint64_t bytes = 0;
    std::set<std::uint64_t> sizes;
    bool is_copied = true;
  };
  std::map<std::uint32_t, Snapshot> lines;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    const std::string_view category = peak.category(allocation);
    if (category != model::kOtherCategory && category != model::kUnknownCategory) continue;
    if (peak.phase(allocation) == model::Phase::kOptimizer) continue;
    if (allocation.size_bytes < 4 * kSmallTensorBytes || !peak.has_line(allocation)) continue;
    const evidence::OperatorSet op = peak.op(allocation);
    if (op.has(evidence::Operator::kRandom)) continue;
    Snapshot& line = lines[peak.line(allocation).value];
    line.is_copied &= op.has(evidence::Operator::kClone);
    line.parts.push_back(part);
    line.bytes += allocation.size_bytes;
    line.sizes.insert(allocation.size_bytes);
  }
  // A file may name any number of models; at most a thousand of them are large enough.
  std::map<std::string_view, const Model*> large;
  for (const auto& [name, model] : models) {
    if (is_at_least(model.bytes, kLeastShareOfModel, peak.bytes())) large.emplace(name, &model);
  }
  for (const auto& [id, line] : lines) {
    for (const auto& [name, found] : large) {
      const Model& model = *found;
      const std::uint64_t bytes = as_model_bytes(line.sizes, line.bytes, model);
      if (!is_at_least(bytes, kShareOfParameters, model.bytes)) continue;
      if (!is_copy_of(model, line.sizes, line.is_copied)) continue;
      for (const std::uint32_t part : line.parts) explanation.add(peak, part);
      names.push_back(counted((bytes + model.bytes / 2) / model.bytes, "snapshot") + " of " +
                      std::string(name));
      break;
    }
  }
}

// Of the copies, what torch.load or safetensors has read from a file.
struct Loaded {
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> parts;
  std::string line;  // that loaded the most
};

Loaded loaded_of(const Peak& peak, const Explanation& explanation) {
  Loaded loaded;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!peak.stacks().has(allocation.stack, evidence::StackFlag::kLoaded)) continue;
    loaded.bytes += allocation.size_bytes;
    loaded.parts.push_back(part);
  }
  loaded.line = line_of_most(peak, loaded.parts).first;
  return loaded;
}

using Lifetimes = std::set<std::uint32_t>;

Lifetimes rows_of(const Peak& peak, const std::vector<std::uint32_t>& parts) {
  Lifetimes lifetimes;
  for (const std::uint32_t part : parts) lifetimes.insert(peak.live()[part].lifetime);
  return lifetimes;
}

// How much the peak falls if these allocations are never made.
std::uint64_t saving_without(const Peak& peak, const Lifetimes& rows) {
  return peak.saving([&](const PeakAllocation& allocation) {
    return rows.contains(allocation.lifetime) ? allocation.born : allocation.died;
  });
}

void add_steps_of_copies(const Peak& peak, const Lifetimes& copies, const Belongings& belongings,
                         report::Finding& finding) {
  const std::uint64_t of_all = peak.saving([&](const PeakAllocation& allocation) {
    const bool is_of_copy =
        copies.contains(allocation.lifetime) || belongings.have(peak, allocation);
    return is_of_copy ? allocation.born : allocation.died;
  });
  if (belongings.optimizer_state > 0) {
    finding.steps.push_back(
        {"If these models are trained one after the other (folds, trials), keep the score or the "
         "weights of each in a file, and delete the model and its optimizer before the next is "
         "made.",
         of_all});
  } else if (belongings.gradients > 0) {
    const std::uint64_t of_gradients = peak.saving([&](const PeakAllocation& allocation) {
      return belongings.have(peak, allocation) ? allocation.born : allocation.died;
    });
    finding.steps.push_back(
        {"Call requires_grad_(False) on a copy that is not trained.", of_gradients});
  }
  finding.steps.push_back(
      step_up_to("Keep fewer copies, or move those that a step does not use (a snapshot, an "
                 "average of the weights) to another device or to a file.",
                 of_all));
  finding.steps.push_back({"Keep the copies in bfloat16."});
}

}  // namespace

void explain_copies(Peak& peak, Explanations& out) {
  const auto models = models_of(peak);
  Explanation explanation;
  std::vector<std::string> names;
  Belongings belongings;
  add_twins(peak, models, claimed(peak, out), explanation, names, belongings);
  const std::size_t twins = names.size();
  add_snapshots(peak, models, explanation, names);
  const bool has_snapshots = names.size() > twins;
  if (explanation.bytes < kLeastPeakBytes) return;
  if (!is_at_least(explanation.bytes, kLeastShareOfMistake, peak.bytes())) return;
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  const auto [line, of_line] = line_of_most(peak, explanation.parts);
  const Loaded loaded = loaded_of(peak, explanation);
  const bool is_loaded = loaded.bytes * 2 >= explanation.bytes;
  report::Finding& finding = explanation.finding;
  explanation.kind = is_loaded ? Kind::kMistake : Kind::kCause;
  finding.id = "model_copies";
  finding.title = "Copies of the model are " + share_text(peak, explanation.bytes) + ": " +
                  bytes_text(explanation.bytes) + " of " + bytes_text(peak.bytes());
  finding.evidence.push_back("They are " + list + ".");
  if (has_snapshots) {
    finding.evidence.push_back(
        "Snapshots are recognized by the sizes of the parameters, which copies of gradients have "
        "too.");
  }
  finding.evidence.push_back(bytes_text(of_line) + " of them are created at " + line + ".");
  if (belongings.gradients + belongings.optimizer_state > 0) {
    finding.evidence.push_back("With them come " + bytes_text(belongings.gradients) +
                               " of gradients and " + bytes_text(belongings.optimizer_state) +
                               " of optimizer state.");
  }
  if (is_loaded) {
    finding.evidence.push_back(bytes_text(loaded.bytes) + " of them were loaded from a file at " +
                               loaded.line + ", and are still live.");
    // Until load_state_dict() has copied it, it has to be live.
    finding.steps.push_back(step_up_to(
        "Free what " + loaded.line +
            " loads when load_state_dict() has copied it: del it, or load it inside a function. "
            "Load each file once.",
        saving_without(peak, rows_of(peak, loaded.parts))));
  } else {
    add_steps_of_copies(peak, rows_of(peak, explanation.parts), belongings, finding);
  }
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings
