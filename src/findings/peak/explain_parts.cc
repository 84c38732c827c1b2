// one_layer_dominates, one_line_dominates, one_tensor_dominates: a single place fills the peak.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/units.h"
#include "findings/advice/appending.h"
#include "findings/advice/line_advice.h"
#include "findings/advice/logits.h"
#include "findings/peak/peak.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/function_name.h"
#include "model/user_line.h"

namespace plimsoll::findings {
namespace {

// A line with more large tensors runs in a loop, usually over layers.
constexpr std::size_t kMostTensors = 4;
constexpr double kLargeTensor = 0.05;
// A layer with more parts above this share of it consists of many layers.
constexpr double kShareOfPart = 0.15;
constexpr int kMostParts = 3;
constexpr double kShareOfAllLayers = 0.6;
// If a line has this share of its layer, the next step names it.
constexpr double kShareOfLine = 0.6;
// The share of activations only, because during its backward any layer has gradients and
// temporaries.
constexpr double kShareOfKept = 0.55;
// In a model with fewer layers, a single layer or a container naturally fills much of it.
constexpr std::size_t kFewestLayers = 4;
constexpr double kMostOfLayers = 0.6;
// A tensor that is nearly all of the peak is the cause, whatever phase allocates it.
constexpr double kWholePeak = 0.8;

bool is_of_model(std::string_view category) {
  return category == model::kParameter || category == model::kBuffer ||
         category == model::kOptimizerState || category == model::kGradient;
}

// By layer: how many layers inside it, including itself, allocated activations in this recording;
// for "no layer": how many there are in total.
std::vector<std::uint32_t> layers_inside(Peak& peak) {
  model::Layers& layers = peak.layers();
  std::set<std::uint32_t> made;
  peak.for_each([&](const PeakAllocation& allocation) {
    if (peak.category(allocation) != model::kActivation) return;
    made.insert(peak.layer(allocation).value);
  });
  made.erase(0);
  std::vector<std::uint32_t> inside(layers.size());
  for (const std::uint32_t id : made) ++inside[id];
  for (auto id = static_cast<std::uint32_t>(layers.size() - 1); id > 0; --id) {
    inside[layers.parent(model::LayerId{id}).index()] += inside[id];
  }
  return inside;
}

// Names the lines of a place that fill the peak, for a title.
std::string place_text(const Peak& peak, const std::vector<std::uint32_t>& parts) {
  const model::UserLines& lines = peak.facts().lines;
  const model::StackTable& stacks = peak.trace().stacks;
  const PeakAllocation* first = nullptr;  // the first allocation on the first line
  std::uint32_t last = 0;
  for (const std::uint32_t part : parts) {
    const PeakAllocation& allocation = peak.live()[part];
    const std::uint32_t line = stacks.frame(lines.frame(allocation.stack)).line;
    const bool is_earlier = first == nullptr || line < stacks.frame(lines.frame(first->stack)).line;
    if (is_earlier) first = &allocation;
    last = std::max(last, line);
  }
  std::string label = peak.line_label(*first);
  const std::string number = ":" + std::to_string(stacks.frame(lines.frame(first->stack)).line);
  const std::size_t place = label.rfind(number + " (");
  const bool is_one = stacks.frame(lines.frame(first->stack)).line == last;
  if (is_one || place == std::string::npos) return label;
  return label.substr(0, place + number.size()) + " to " + std::to_string(last) +
         label.substr(place + number.size());
}

// For a line that makes one tensor longer at every call: both the old and the new one are live.
void advise_appending(const Peak& peak, const PeakAllocation& largest, const std::string& line,
                      Explanation& explanation) {
  const std::size_t times = times_appended(peak, largest);
  if (times == 0) return;
  report::Finding& finding = explanation.finding;
  finding.evidence.push_back("That line makes one tensor longer again and again, " +
                             base::format_count(times) + " times up to " +
                             bytes_text(largest.size_bytes) +
                             "; each time, the old and the new tensor are live. A list with one "
                             "torch.cat at its end would save only the copies.");
  finding.steps = {
      {"Allocate the tensor at " + line +
           " once, in its final size, and write each part into a slice of it, which also saves the "
           "copies.",
       saving_of_appended(peak, largest)},
      {"Keep only what you need of each part that " + line + " appends."}};
}

// For an operator whose result has N × N elements while two tensors of N elements are live:
// [N] and [N, 1] broadcast to [N, N], often by mistake.
void advise_broadcast(const Peak& peak, const std::string& line, Explanation& explanation) {
  constexpr std::uint64_t kFewestElements = 256;
  const PeakAllocation* made = nullptr;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& each = peak.live()[part];
    const bool is_elementwise = peak.op(each).has(evidence::Operator::kElementwise);
    if (each.born != model::kNone && is_elementwise) made = &each;
  }
  if (made == nullptr) return;
  for (const std::uint64_t item : {std::uint64_t{4}, std::uint64_t{2}, std::uint64_t{8}}) {
    const auto count = static_cast<std::uint64_t>(
        std::llround(std::sqrt(static_cast<double>(made->size_bytes) / static_cast<double>(item))));
    if (count < kFewestElements || count * count * item != made->size_bytes) continue;
    if (live_of_size(peak, made->born, count * item) < 2) continue;
    const std::string number = base::format_count(count);
    const std::string size = std::to_string(count);  // in shapes, a comma separates dimensions
    std::string evidence(peak.trace().strings[peak.site(*made).op]);
    evidence.append(" makes ").append(number).append(" × ").append(number);
    evidence.append(" elements there, while two tensors of ").append(number);
    evidence.append(" elements are live.");
    explanation.finding.evidence.push_back(std::move(evidence));
    std::string advice = "If the result should have ";
    advice.append(number).append(" elements, correct the shapes at ").append(line);
    advice.append(": [").append(size).append("] and [").append(size).append(", 1] broadcast to [");
    advice.append(size).append(", ").append(size).append("] (squeeze or view one of them).");
    const model::LineId line_id = peak.line(*made);
    const std::uint64_t saving = peak.saving([&](const PeakAllocation& each) {
      const bool is_made = each.size_bytes == made->size_bytes && peak.line(each) == line_id;
      return is_made ? each.born : each.died;
    });
    auto& steps = explanation.finding.steps;
    steps.insert(steps.begin(), {std::move(advice), worthwhile(peak, saving)});
    return;
  }
}

Explanation report_line(const Peak& peak, const std::optional<Logits>& logits,
                        Explanation explanation, bool is_one_line) {
  report::Finding& finding = explanation.finding;
  const PeakAllocation& first = peak.live()[*std::ranges::max_element(
      explanation.parts, {}, [&](std::uint32_t part) { return peak.live()[part].size_bytes; })];
  const std::string line = place_text(peak, explanation.parts);
  finding.id = "one_line_dominates";
  finding.title = (is_one_line ? "One line fills " : "The lines of one function fill ") +
                  share_text(peak, explanation.bytes) + ": " + bytes_text(explanation.bytes) +
                  " of " + bytes_text(peak.bytes()) + " at " + line;
  finding.evidence.push_back("It holds " + parts_text(peak, explanation.parts) +
                             callers_text(peak, first) + ".");
  const std::string_view layer = peak.trace().strings[peak.site(first).layer];
  if (!layer.empty()) finding.evidence.push_back("The layer is " + std::string(layer) + ".");
  if (!advise_logits(peak, logits, explanation)) {
    finding.steps = steps_for_line(peak, explanation.parts, line);
  }
  advise_one_hot(peak, explanation);
  advise_appending(peak, first, line, explanation);
  advise_broadcast(peak, line, explanation);
  return explanation;
}

// A line, or a function within one layer; unknown members are 0.
struct Place {
  std::uint32_t line = 0;
  std::uint32_t file = 0;
  std::uint32_t function = 0;
  std::uint32_t layer = 0;
  auto operator<=>(const Place&) const = default;
};

// The function that contains the allocation's line; empty for a forward, which is the layer itself.
Place function_of(Peak& peak, const PeakAllocation& allocation) {
  if (!is_of_training(peak.category(allocation))) return {};
  const model::Frame& frame = peak.trace().stacks.frame(peak.facts().lines.frame(allocation.stack));
  const std::string_view name = peak.trace().strings[frame.function];
  if (model::is_forward(name) || name == "<module>") return {};
  return {.file = frame.file.value,
          .function = frame.function.value,
          .layer = peak.site(allocation).layer.value};
}

// Whether there are too many parts for one place. Allocations by the backward of an expression
// outside all layers, such as a loss, do not count: they do not indicate a loop over layers.
bool is_loop(const Peak& peak, const std::vector<std::uint32_t>& parts) {
  const auto counted = std::ranges::count_if(parts, [&](std::uint32_t part) {
    const PeakAllocation& allocation = peak.live()[part];
    const bool is_outside = peak.site(allocation).layer == model::StringId{};
    return !is_outside || peak.phase(allocation) != model::Phase::kBackward;
  });
  return static_cast<std::size_t>(counted) > kMostTensors || parts.size() > 2 * kMostTensors;
}

}  // namespace

void explain_line(Peak& peak, Explanations& out) {
  std::map<Place, Explanation> places;
  std::unordered_map<std::uint32_t, std::uint64_t> all_of_line;
  const auto least = static_cast<std::uint64_t>(kLargeTensor * static_cast<double>(peak.bytes()));
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!peak.has_line(allocation)) continue;
    all_of_line[peak.line(allocation).value] += allocation.size_bytes;
    // The purpose of memory from before the recording is unknown.
    if (allocation.size_bytes < least || allocation.born == model::kNone) continue;
    if (is_of_model(peak.category(allocation))) continue;
    if (peak.is_of_torch_optimizer(allocation)) continue;  // explain_optimizer has the advice
    places[Place{.line = peak.line(allocation).value}].add(peak, part);
    if (const Place place = function_of(peak, allocation); place.function != 0) {
      places[place].add(peak, part);
    }
  }
  std::optional<std::optional<Logits>> logits;  // computed for the first place that is reported
  for (auto& [place, explanation] : places) {
    if (is_loop(peak, explanation.parts) || explanation.bytes < kLeastPeakBytes) continue;
    if (!is_at_least(explanation.bytes, kShareOfPlace, peak.bytes())) continue;
    const PeakAllocation& first = peak.live()[explanation.parts.front()];
    const bool is_line = place.function == 0;
    const auto is_on_line = [&](std::uint32_t part) {
      return peak.line(peak.live()[part]) == peak.line(first);
    };
    if (!is_line && std::ranges::all_of(explanation.parts, is_on_line)) continue;
    const std::uint64_t bytes = explanation.bytes;
    if (!logits) logits = logits_of(peak);
    Explanation reported = report_line(peak, *logits, std::move(explanation), is_line);
    const std::uint64_t all = all_of_line[place.line];
    if (is_line && all > bytes) {
      reported.finding.evidence.push_back(
          "Including its smaller tensors and those of the model, the line holds " +
          share_text(peak, all) + ".");
    }
    out.push_back(std::move(reported));
  }
}

void explain_layer(Peak& peak, Explanations& out) {
  model::Layers& layers = peak.layers();
  std::vector<std::pair<model::LayerId, std::uint32_t>> members;  // innermost layer, part
  std::uint64_t whole = 0;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!is_of_training(peak.category(allocation))) continue;
    whole += allocation.size_bytes;
    members.emplace_back(peak.layer(allocation), part);
  }
  const std::vector<std::uint32_t> inside = layers_inside(peak);
  if (inside[0] < kFewestLayers) return;
  std::vector<std::uint64_t> bytes(layers.size()), kept(layers.size());
  std::vector<int> parts(layers.size());
  std::uint64_t all_kept = 0;
  for (const auto& [layer, part] : members) {
    const PeakAllocation& allocation = peak.live()[part];
    bytes[layer.index()] += allocation.size_bytes;
    if (peak.category(allocation) != model::kActivation) continue;
    kept[layer.index()] += allocation.size_bytes;
    all_kept += allocation.size_bytes;
  }
  for (auto id = static_cast<std::uint32_t>(layers.size() - 1); id > 0; --id) {
    const model::LayerId parent = layers.parent(model::LayerId{id});
    if (parent == model::kNoLayer) continue;
    bytes[parent.index()] += bytes[id];
    kept[parent.index()] += kept[id];
  }
  for (std::uint32_t id = 1; id < layers.size(); ++id) {
    const model::LayerId parent = layers.parent(model::LayerId{id});
    if (is_at_least(bytes[id], kShareOfPart, bytes[parent.index()])) ++parts[parent.index()];
  }
  std::uint32_t found = 0;  // the deepest one, because descendants have larger numbers
  for (std::uint32_t id = 1; id < layers.size(); ++id) {
    const bool is_root = layers.parent(model::LayerId{id}) == model::kNoLayer;
    if (is_root || parts[id] > kMostParts || bytes[id] < kLeastPeakBytes) continue;
    if (inside[id] > kMostOfLayers * inside[0]) continue;
    if (!is_at_least(bytes[id], kShareOfAllLayers, whole)) continue;
    if (!is_at_least(kept[id], kShareOfKept, all_kept)) continue;
    if (is_at_least(bytes[id], kShareOfPlace, peak.bytes())) found = id;
  }
  if (found == 0) return;
  std::vector<bool> is_inside(layers.size());
  for (std::uint32_t id = found; id < layers.size(); ++id) {
    is_inside[id] = id == found || is_inside[layers.parent(model::LayerId{id}).index()];
  }
  Explanation explanation;
  for (const auto& [layer, part] : members) {
    if (is_inside[layer.index()]) explanation.add(peak, part);
  }
  report::Finding& finding = explanation.finding;
  const std::string& path = layers.path(model::LayerId{found});
  finding.id = "one_layer_dominates";
  finding.title = "One layer fills " + share_text(peak, explanation.bytes) + ": " + path +
                  " holds " + bytes_text(explanation.bytes) + " of " + bytes_text(peak.bytes());
  finding.evidence.push_back("It holds " + parts_text(peak, explanation.parts) + ".");
  finding.evidence.push_back("Activations, their gradients and temporaries of all layers are " +
                             bytes_text(whole) + ".");
  const auto [line, of_line] = line_of_most(peak, explanation.parts);
  const bool is_at_line = is_named(line) && is_at_least(of_line, kShareOfLine, explanation.bytes);
  if (is_at_line) {
    finding.evidence.push_back(bytes_text(of_line) + " of it are created at " + line + ".");
  }
  finding.steps = {{"Make " + (is_at_line ? "the tensors of " + line : path) + " smaller."},
                   {"Run " + path + " in chunks of the batch" +
                    (peak.may_train() ? std::string(kEachThroughCheckpoint) : "") + "."}};
  out.push_back(std::move(explanation));
}

namespace {

// Parameters that receive a dense gradient from the backward of an embedding.
std::set<std::string_view> embedding_parameters(const Peak& peak) {
  std::set<std::string_view> names;
  const auto& strings = peak.trace().strings;
  std::map<std::string_view, std::uint64_t> sizes;
  peak.for_each([&](const PeakAllocation& allocation) {
    const std::string_view category = peak.category(allocation);
    const std::string_view name = strings[peak.tensor(allocation).name];
    if (category == model::kParameter) sizes[name] = allocation.size_bytes;
    if (category != model::kGradient || name.empty()) return;
    const bool is_dense = sizes[name] == allocation.size_bytes;
    const bool is_looked_up = peak.op(allocation).has(evidence::Operator::kLookupBackward);
    if (is_dense && is_looked_up) names.insert(name);
  });
  return names;
}

// By how much the peak falls without the gradient of a parameter and without what one step of its
// optimizer needs for it; with `has_state` false also without its state.
std::uint64_t saving_of_sparse(const Peak& peak, std::string_view name, bool has_state) {
  const auto& strings = peak.trace().strings;
  std::uint64_t size = 0;
  peak.for_each([&](const PeakAllocation& allocation) {
    const bool is_parameter = peak.category(allocation) == model::kParameter;
    if (is_parameter && strings[peak.tensor(allocation).name] == name) size = allocation.size_bytes;
  });
  return peak.saving([&](const PeakAllocation& allocation) {
    const bool is_of_table = strings[peak.tensor(allocation).name].starts_with(name);
    const std::string_view category = peak.category(allocation);
    const bool is_dropped = (is_of_table && category == model::kGradient) ||
                            (is_of_table && category == model::kOptimizerState && !has_state) ||
                            (category == model::kOptimizerScratch && allocation.size_bytes == size);
    return is_dropped ? allocation.born : allocation.died;
  });
}

void advise_sparse(const Peak& peak, std::string_view name, bool has_state,
                   report::Finding& finding) {
  const auto& strings = peak.trace().strings;
  const bool is_adam = std::ranges::any_of(peak.live(), [&](const PeakAllocation& allocation) {
    const std::string_view state = strings[peak.tensor(allocation).name];
    return state.starts_with(name) && state.substr(name.size()) == ".exp_avg";
  });
  const std::string sparse = "If a batch uses few rows of " + std::string(name) +
                             ", make the embedding with sparse=True: its gradient is then as small "
                             "as these rows";
  const std::uint64_t without_state = saving_of_sparse(peak, name, false);
  if (!is_adam) {
    finding.steps.push_back(
        step_up_to(sparse + (has_state ? ", and torch.optim.SGD keeps no state for it." : "."),
                   without_state));
    return;
  }
  // SparseAdam keeps the same state as Adam.
  finding.steps = {
      step_up_to(sparse + ". Adam and AdamW raise an error for such a gradient, so give the "
                          "embedding a second optimizer, torch.optim.SparseAdam.",
                 saving_of_sparse(peak, name, true)),
      step_up_to("Make the embedding with sparse=True, and give it torch.optim.SGD as a second "
                 "optimizer, which keeps no state for it.",
                 without_state)};
}

}  // namespace

// A parameter with its gradient and its optimizer state.
void explain_parameter(Peak& peak, Explanations& out) {
  std::map<std::string_view, Explanation> parameters;
  const auto& strings = peak.trace().strings;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    const std::string_view category = peak.category(allocation);
    if (!is_of_model(category)) continue;
    std::string_view name = strings[peak.tensor(allocation).name];
    if (category == model::kOptimizerState) {
      name = name.substr(0, name.rfind('.'));
      // The vectors of L-BFGS cover all parameters but carry the name of the first.
      if (peak.stacks().has(allocation.stack, evidence::StackFlag::kLbfgs)) continue;
    }
    if (!name.empty()) parameters[name].add(peak, part);
  }
  const std::set<std::string_view> embeddings = embedding_parameters(peak);
  for (auto& [name, explanation] : parameters) {
    if (explanation.bytes < kLeastPeakBytes) continue;
    if (!is_at_least(explanation.bytes, kShareOfPlace, peak.bytes())) continue;
    report::Finding& finding = explanation.finding;
    std::uint64_t gradient = 0, state = 0;
    const bool is_embedding = embeddings.contains(name);
    for (const std::uint32_t part : explanation.parts) {
      const PeakAllocation& allocation = peak.live()[part];
      if (peak.category(allocation) == model::kGradient) gradient += allocation.size_bytes;
      if (peak.category(allocation) == model::kOptimizerState) state += allocation.size_bytes;
    }
    finding.id = "one_tensor_dominates";
    const std::string_view kind = peak.category(peak.live()[explanation.parts.front()]);
    finding.title =
        std::string(kind == model::kBuffer ? "One buffer fills " : "One parameter fills ") +
        share_text(peak, explanation.bytes) + ": " + std::string(name) + " holds " +
        bytes_text(explanation.bytes) + " of " + bytes_text(peak.bytes()) +
        " with what belongs to it";
    finding.evidence.push_back("It holds " + parts_text(peak, explanation.parts) + ".");
    if (gradient > 0) {
      finding.evidence.push_back("Its dense gradient is " + bytes_text(gradient) + " of it.");
    }
    if (state > 0) {
      finding.evidence.push_back("Its optimizer state is " + bytes_text(state) + " of it.");
    }
    if (is_embedding) {
      advise_sparse(peak, name, state > 0, finding);
    } else {
      finding.steps = {{"Make " + std::string(name) + " smaller, or shard it over your devices."}};
      if (state > 0) {
        finding.steps.push_back(
            {"Keep its optimizer state in 8 bits (AdamW8bit of bitsandbytes or torchao)."});
      }
    }
    out.push_back(std::move(explanation));
  }
}

}  // namespace plimsoll::findings
