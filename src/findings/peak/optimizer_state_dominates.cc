// optimizer_state_dominates, optimizer_scratch: the optimizer's own tensors are the largest part of
// the peak, or the temporary memory of its step is a large part of it.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "findings/peak/owners.h"
#include "findings/peak/peak.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

constexpr std::size_t kKindsNamed = 3;
constexpr double kStateShareOfOwner = 0.8;
constexpr double kShareOfStale = 0.5;
constexpr double kShareOfEmbeddings = 0.5;
constexpr double kShareOfHistory = 0.5;
constexpr double kShareOfScratch = 0.15;
constexpr std::size_t kFewestScratch = 4;
constexpr std::uint64_t kScratchOfOne = 3;

constexpr const char* kIn8Bits = "Keep it in 8 bits (AdamW8bit of bitsandbytes or torchao).";

struct State {
  std::uint64_t float32_bytes = 0;
  std::map<std::string_view, std::uint64_t> by_kind;  // "exp_avg", the last part of the tensor's
                                                      // name
  std::map<std::string_view, std::uint64_t> by_parameter;  // the rest of the name
  std::uint64_t stale_bytes = 0;
  std::set<std::uint32_t> stale;  // lifetimes superseded by a later one of the same name and kind
  std::size_t most_of_one = 0;    // most tensors of one name that are live simultaneously
};

// Whether every optimizer that uses this kind has one per parameter.
bool is_one_of_a_parameter(std::string_view kind) {
  constexpr std::array<std::string_view, 6> kKinds = {"exp_avg",         "exp_avg_sq", "exp_inf",
                                                      "momentum_buffer", "square_avg", "sum"};
  return std::ranges::find(kKinds, kind) != kKinds.end();
}

// Finds state of earlier optimizers: of the live state, all but the newest tensor of each name.
void find_stale(const Peak& peak, const Explanation& explanation, State& state) {
  std::map<std::string_view, std::vector<std::uint32_t>> parts;  // by birth
  for (const std::uint32_t part : explanation.parts) {
    parts[peak.trace().strings[peak.tensor(peak.live()[part]).name]].push_back(part);
  }
  for (const auto& [name, of_name] : parts) {
    if (!is_one_of_a_parameter(name.substr(name.rfind('.') + 1))) continue;
    state.most_of_one = std::max(state.most_of_one, of_name.size());
    for (std::size_t i = 0; i + 1 < of_name.size(); ++i) {
      state.stale.insert(peak.live()[of_name[i]].lifetime);
      state.stale_bytes += peak.live()[of_name[i]].size_bytes;
    }
  }
}

// The layers that look up rows of a table.
std::set<std::string_view> embedding_layers(const Peak& peak) {
  std::set<std::string_view> layers;
  const model::StringTable& strings = peak.trace().strings;
  peak.for_each([&](const PeakAllocation& allocation) {
    if (!peak.op(allocation).has(evidence::Operator::kLookup)) return;
    layers.insert(strings[peak.site(allocation).layer]);
  });
  return layers;
}

bool is_of_layer(const std::set<std::string_view>& layers, std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot != std::string_view::npos && layers.contains(parameter.substr(0, dot));
}

// The history of L-BFGS: two vectors of all parameters for each update, y (made by aten::sub) and
// s.
struct History {
  std::uint64_t bytes = 0;  // of all state of L-BFGS
  std::size_t updates = 0;
  std::uint64_t vector_bytes = 0;
};

History history_of(const Peak& peak, const Explanation& explanation) {
  History history;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!peak.stacks().has(allocation.stack, evidence::StackFlag::kLbfgs)) continue;
    history.bytes += allocation.size_bytes;
    if (allocation.born == model::kNone) continue;
    if (!peak.op(allocation).has(evidence::Operator::kDifference)) continue;
    ++history.updates;
    history.vector_bytes = std::max(history.vector_bytes, allocation.size_bytes);
  }
  return history;
}

void advise_history(const History& history, report::Finding& finding) {
  const std::uint64_t update = 2 * history.vector_bytes;
  finding.evidence.push_back("L-BFGS keeps " + counted(history.updates, "update") + " of " +
                             bytes_text(update) + " each: two vectors as long as all parameters, " +
                             bytes_text(history.updates * update) + " in all.");
  const std::size_t half = (history.updates + 1) / 2;
  finding.steps = {step_up_to("Pass a smaller history_size to torch.optim.LBFGS, such as " +
                                  base::format_count(half) + " instead of " +
                                  base::format_count(history.updates) + ".",
                              (history.updates - half) * update)};
}

// Gives more specific advice than a smaller dtype, if possible.
void advise(const Peak& peak, const State& state, std::uint64_t bytes, report::Finding& finding) {
  if (is_at_least(state.stale_bytes, kShareOfStale, bytes)) {
    finding.evidence.push_back(
        bytes_text(state.stale_bytes) + " of it are older state of parameters that have newer " +
        "state of the same kind, up to " + counted(state.most_of_one, "tensor") +
        " each. The program retains optimizers that it has replaced.");
    const std::uint64_t saving = peak.saving([&](const PeakAllocation& allocation) {
      return state.stale.contains(allocation.lifetime) ? allocation.born : allocation.died;
    });
    finding.steps = {
        {"Drop each optimizer when its part of the training is over (a list or "
         "attribute retains them), or keep using one.",
         saving}};
    return;
  }
  if (peak.is_inferred()) return;
  const auto embeddings = embedding_layers(peak);
  std::uint64_t of_embeddings = 0;
  for (const auto& [parameter, of_parameter] : state.by_parameter) {
    if (is_of_layer(embeddings, parameter)) of_embeddings += of_parameter;
  }
  if (!is_at_least(of_embeddings, kShareOfEmbeddings, bytes)) return;
  finding.evidence.push_back(bytes_text(of_embeddings) +
                             " of it belong to embeddings: to all rows, used or not.");
  const auto is_of_embeddings = [&](const PeakAllocation& allocation, std::string_view category,
                                    std::string_view parameter) {
    return peak.category(allocation) == category && is_of_layer(embeddings, parameter);
  };
  const std::uint64_t of_state = peak.saving([&](const PeakAllocation& allocation) {
    const std::string_view name = peak.trace().strings[peak.tensor(allocation).name];
    const std::string_view parameter = name.substr(0, name.rfind('.'));
    const bool is_dropped = is_of_embeddings(allocation, model::kOptimizerState, parameter);
    return is_dropped ? allocation.born : allocation.died;
  });
  const std::uint64_t of_gradients = peak.saving([&](const PeakAllocation& allocation) {
    const std::string_view name = peak.trace().strings[peak.tensor(allocation).name];
    const bool is_dropped = is_of_embeddings(allocation, model::kGradient, name);
    return is_dropped ? allocation.born : allocation.died;
  });
  report::FindingStep in_8_bits{kIn8Bits};
  if (state.float32_bytes > 0) in_8_bits = finding.steps.front();  // with its saving
  finding.steps = {{"Give the embeddings an optimizer without state: nn.Embedding(sparse=True) "
                    "with torch.optim.SGD has none, and makes no dense gradients.",
                    of_state},
                   step_up_to("Make no dense gradients of the embeddings: "
                              "nn.Embedding(sparse=True) with torch.optim.SparseAdam, which keeps "
                              "the state.",
                              of_gradients),
                   in_8_bits};
}

State state_at(const Peak& peak, Explanation& explanation) {
  State state;
  const auto& strings = peak.trace().strings;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (peak.category(allocation) != model::kOptimizerState) continue;
    explanation.add(peak, part);
    const model::Tensor& tensor = peak.tensor(allocation);
    if (strings[tensor.dtype] == "float32") state.float32_bytes += allocation.size_bytes;
    const std::string_view name = strings[tensor.name];
    const std::size_t dot = name.rfind('.');
    if (dot != std::string_view::npos) {
      state.by_kind[name.substr(dot + 1)] += allocation.size_bytes;
      state.by_parameter[name.substr(0, dot)] += allocation.size_bytes;
    }
  }
  find_stale(peak, explanation, state);
  return state;
}

std::string kinds_text(const State& state) {
  std::vector<std::pair<std::string_view, std::uint64_t>> kinds(state.by_kind.begin(),
                                                                state.by_kind.end());
  std::ranges::stable_sort(kinds, std::ranges::greater{},
                           [](const auto& kind) { return kind.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kKindsNamed, kinds.size()); ++i) {
    text += (text.empty() ? "" : ", ") + std::string(kinds[i].first) + " " +
            bytes_text(kinds[i].second);
  }
  return text;
}

void explain_state(const Peak& peak, Explanations& out) {
  Explanation explanation;
  const State state = state_at(peak, explanation);
  const std::uint64_t bytes = explanation.bytes;
  if (bytes < kLeastPeakBytes || !is_at_least(bytes, kShareOfState, peak.bytes())) return;
  report::Finding& finding = explanation.finding;
  finding.id = "optimizer_state_dominates";
  finding.title = "Optimizer state is " + share_text(peak, bytes) + ": " + bytes_text(bytes) +
                  " of " + bytes_text(peak.bytes());
  if (!state.by_kind.empty()) finding.evidence.push_back("It is " + kinds_text(state) + ".");
  const Owner owner = owner_of_most(state.by_parameter, kStateShareOfOwner);
  if (owner.path.find('.') != std::string::npos) {
    finding.evidence.push_back(bytes_text(owner.bytes) + " of it belong to " +
                               counted(owner.tensors, "parameter") + " of " + owner.path + ".");
  }
  // The dtype is unknown in a snapshot.
  if (peak.is_inferred()) finding.steps.push_back({kIn8Bits});
  finding.steps.push_back({"Shard it over your devices (FSDP, ZeRO)."});
  finding.steps.push_back({"Use an optimizer with less state (Adafactor, SGD)."});
  if (state.float32_bytes > 0) {
    finding.evidence.push_back(bytes_text(state.float32_bytes) + " of it are float32.");
    // Where the peak is without any state limits the saving.
    const std::uint64_t most = peak.saving([&](const PeakAllocation& allocation) {
      const bool is_state = peak.category(allocation) == model::kOptimizerState;
      return is_state ? allocation.born : allocation.died;
    });
    finding.steps = {step_up_to(kIn8Bits, std::min(state.float32_bytes / 4 * 3, most)),
                     {"Shard it over your devices (FSDP, ZeRO)."}};
  }
  const History history = history_of(peak, explanation);
  if (history.updates > 1 && is_at_least(history.bytes, kShareOfHistory, bytes)) {
    advise_history(history, finding);
  } else {
    advise(peak, state, bytes, finding);
  }
  if (is_at_least(state.stale_bytes, kShareOfStale, bytes)) explanation.kind = Kind::kMistake;
  out.push_back(std::move(explanation));
}

bool is_scratch(const Peak& peak, const PeakAllocation& allocation) {
  const std::string_view category = peak.category(allocation);
  const bool is_short_lived = category == model::kOptimizerScratch ||
                              category == model::kOtherCategory ||
                              category == model::kTemporaryCategory;
  return is_short_lived && peak.is_of_optimizer(allocation) &&
         !peak.stacks().has(allocation.stack,
                            evidence::StackFlag::kLbfgs);  // it has no foreach implementation
}

bool is_of_foreach(const Peak& peak, const PeakAllocation& allocation) {
  return peak.op(allocation).has(evidence::Operator::kForeach) ||
         peak.stacks().has(allocation.stack, evidence::StackFlag::kForeach);
}

// For an optimizer that updates one parameter after the other, or is the program's own.
void advise_update(const Peak& peak, const Explanation& explanation, report::Finding& finding) {
  const auto [line, of_line] = line_of_most(peak, explanation.parts);
  finding.evidence.push_back(counted(explanation.parts.size(), "temporary tensor") +
                             " are live simultaneously: " + parts_text(peak, explanation.parts) +
                             ".");
  const PeakAllocation& first = peak.live()[explanation.parts.front()];
  if (peak.is_of_torch_optimizer(first) || !is_named(line)) {
    finding.evidence.emplace_back("The update of one parameter needs them.");
    finding.steps = {{"Pass fused=True to the optimizer if there is a fused kernel."},
                     {"Split the largest parameter."}};
    return;
  }
  finding.evidence.push_back(bytes_text(of_line) + " of them are made at " + line + ".");
  finding.steps = {{"Compute the update at " + line +
                    " in place (mul_, add_, out=), one parameter at a time, and delete each "
                    "temporary (del) after its last use."}};
}

void explain_scratch(const Peak& peak, Explanations& out) {
  Explanation explanation;
  std::uint64_t largest = 0;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!is_scratch(peak, allocation)) continue;
    explanation.add(peak, part);
    largest = std::max(largest, allocation.size_bytes);
  }
  const std::uint64_t bytes = explanation.bytes;
  if (bytes < kLeastHabitBytes || !is_at_least(bytes, kShareOfScratch, peak.bytes())) return;
  if (explanation.parts.size() < kFewestScratch) return;
  explanation.kind = Kind::kMistake;
  report::Finding& finding = explanation.finding;
  finding.id = "optimizer_scratch";
  finding.title = "What the optimizer allocates within its step is " + share_text(peak, bytes) +
                  ": " + bytes_text(bytes) + " of " + bytes_text(peak.bytes());
  const bool is_foreach = std::ranges::any_of(explanation.parts, [&](std::uint32_t part) {
    return is_of_foreach(peak, peak.live()[part]);
  });
  if (!is_foreach) {
    advise_update(peak, explanation, finding);
    out.push_back(std::move(explanation));
    return;
  }
  finding.evidence.push_back(
      counted(explanation.parts.size(), "temporary tensor") +
      " are live simultaneously: the foreach implementation updates all parameters together.");
  const std::uint64_t all = peak.saving([&](const PeakAllocation& allocation) {
    return is_scratch(peak, allocation) ? allocation.born : allocation.died;
  });
  // Processing one parameter at a time needs only a few tensors of its size.
  finding.steps = {{"Pass foreach=False to the optimizer, which then updates one parameter after "
                    "the other.",
                    all - std::min(all, kScratchOfOne * largest)},
                   {"Pass fused=True to the optimizer if there is a fused kernel.", all}};
  out.push_back(std::move(explanation));
}

}  // namespace

void explain_optimizer(Peak& peak, Explanations& out) {
  explain_state(peak, out);
  explain_scratch(peak, out);
}

}  // namespace plimsoll::findings
