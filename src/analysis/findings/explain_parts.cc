// one_layer_dominates, one_line_dominates, one_tensor_dominates: a single place fills the peak.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "analysis/findings/peak.h"
#include "analysis/findings/text.h"
#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

// Worth more than the category that its bytes belong to where it has 5/8 of them.
constexpr double kWeight = 1.6;
constexpr double kWeightOfLayer = 1.7;  // a line of a container may call several layers
// A line with more large tensors runs in a loop: over layers, most often.
constexpr std::size_t kMostTensors = 4;
constexpr double kLargeTensor = 0.05;
// A layer with more parts of weight is many layers.
constexpr double kShareOfPart = 0.15;
constexpr int kMostParts = 3;
constexpr double kShareOfAllLayers = 0.6;
// Of the activations alone: in its backward any layer holds gradients and temporaries.
constexpr double kShareOfKept = 0.55;
// A model of fewer layers is not filled by one of them more than it must, nor by a container of
// most of them.
constexpr std::size_t kFewestLayers = 4;
constexpr double kMostOfLayers = 0.6;
// One tensor that is nearly all of the peak is the cause, in whatever stage it is made.
constexpr double kWholePeak = 0.8;
constexpr double kWeightOfWholePeak = 2.0;

bool is_of_training(std::string_view category) {
  return category == model::kActivation || category == model::kActivationGradient ||
         category == model::kTemporary;
}

bool is_of_model(std::string_view category) {
  return category == model::kParameter || category == model::kBuffer ||
         category == model::kOptimizerState || category == model::kGradient;
}

// By layer: how many of those that made activations in this recording are inside it, itself
// included; of no layer: how many there are.
std::vector<std::uint32_t> layers_inside(Peak& peak) {
  model::Layers& layers = peak.layers();
  std::set<std::uint32_t> made;
  peak.for_each([&](const PeakAllocation& allocation) {
    if (peak.category(allocation) != model::kActivation) return;
    made.insert(layers.of(allocation.event).value);
  });
  made.erase(0);
  std::vector<std::uint32_t> inside(layers.size());
  for (const std::uint32_t id : made) ++inside[id];
  for (auto id = static_cast<std::uint32_t>(layers.size() - 1); id > 0; --id) {
    inside[layers.parent(model::LayerId{id}).index()] += inside[id];
  }
  return inside;
}

Explanation tell_line(const Peak& peak, Explanation explanation, const std::string& line) {
  report::Finding& finding = explanation.finding;
  const PeakAllocation& first = peak.live()[*std::ranges::max_element(
      explanation.parts, {}, [&](std::uint32_t part) { return peak.live()[part].size_bytes; })];
  finding.id = "one_line_dominates";
  finding.title = "One line fills " + share_text(peak, explanation.bytes) + ": " +
                  bytes_text(explanation.bytes) + " of " + bytes_text(peak.bytes()) + " at " + line;
  finding.evidence.push_back("It holds " + parts_text(peak, explanation.parts) +
                             callers_text(peak, first) + ".");
  const std::string_view layer = peak.trace().strings[peak.trace().events.layer[first.event]];
  if (!layer.empty()) finding.evidence.push_back("The layer is " + std::string(layer) + ".");
  finding.next_step =
      "Avoid the full-size tensor at " + line +
      ": compute it in chunks, use a fused operator that never stores it (for example "
      "torch.nn.functional.scaled_dot_product_attention, torch.cdist or an index in place of a "
      "one-hot tensor), or make it smaller.";
  return explanation;
}

}  // namespace

void explain_line(Peak& peak, Explanations& out) {
  std::unordered_map<std::uint32_t, Explanation> lines;
  const auto least = static_cast<std::uint64_t>(kLargeTensor * static_cast<double>(peak.bytes()));
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (allocation.size_bytes < least || !peak.has_line(allocation)) continue;
    // What it is for cannot be seen.
    if (allocation.born == model::kNone) continue;
    if (is_of_model(peak.category(allocation))) continue;
    lines[peak.line(allocation).value].add(peak, part);
  }
  for (auto& [id, explanation] : lines) {
    if (explanation.parts.size() > kMostTensors || explanation.bytes < kLeastPeakBytes) continue;
    if (!is_at_least(explanation.bytes, kShareOfPlace, peak.bytes())) continue;
    const std::uint32_t largest = std::ranges::max(
        explanation.parts, {}, [&](std::uint32_t part) { return peak.live()[part].size_bytes; });
    const bool is_whole = is_at_least(peak.live()[largest].size_bytes, kWholePeak, peak.bytes());
    explanation.weight = is_whole ? kWeightOfWholePeak : kWeight;
    const std::string line = peak.line_label(peak.live()[explanation.parts.front()]);
    out.push_back(tell_line(peak, std::move(explanation), line));
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
    members.emplace_back(layers.of(allocation.event), part);
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
  std::uint32_t found = 0;  // the deepest: descendants have larger numbers
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
  explanation.weight = kWeightOfLayer;
  report::Finding& finding = explanation.finding;
  const std::string& path = layers.path(model::LayerId{found});
  finding.id = "one_layer_dominates";
  finding.title = "One layer fills " + share_text(peak, explanation.bytes) + ": " + path +
                  " holds " + bytes_text(explanation.bytes) + " of " + bytes_text(peak.bytes());
  finding.evidence.push_back("It holds " + parts_text(peak, explanation.parts) + ".");
  finding.evidence.push_back("Activations, their gradients and temporaries of all layers are " +
                             bytes_text(whole) + ".");
  finding.next_step = "Make " + path +
                      " smaller, or run it in chunks of the batch, each through "
                      "torch.utils.checkpoint.checkpoint(…, use_reentrant=False).";
  out.push_back(std::move(explanation));
}

// A parameter with its gradient and its optimizer state.
void explain_parameter(Peak& peak, Explanations& out) {
  std::map<std::string_view, Explanation> parameters;
  const auto& strings = peak.trace().strings;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    const std::string_view category = peak.category(allocation);
    if (!is_of_model(category)) continue;
    std::string_view name = strings[peak.tensor(allocation).name];
    if (category == model::kOptimizerState) name = name.substr(0, name.rfind('.'));
    if (!name.empty()) parameters[name].add(peak, part);
  }
  for (auto& [name, explanation] : parameters) {
    if (explanation.bytes < kLeastPeakBytes) continue;
    if (!is_at_least(explanation.bytes, kShareOfPlace, peak.bytes())) continue;
    report::Finding& finding = explanation.finding;
    std::uint64_t gradient = 0;
    for (const std::uint32_t part : explanation.parts) {
      const PeakAllocation& allocation = peak.live()[part];
      if (peak.category(allocation) == model::kGradient) gradient += allocation.size_bytes;
    }
    explanation.weight = kWeight;
    finding.id = "one_tensor_dominates";
    finding.title = "One parameter fills " + share_text(peak, explanation.bytes) + ": " +
                    std::string(name) + " holds " + bytes_text(explanation.bytes) + " of " +
                    bytes_text(peak.bytes()) + " with what belongs to it";
    finding.evidence.push_back("It holds " + parts_text(peak, explanation.parts) + ".");
    finding.next_step =
        "Make " + std::string(name) + " smaller, shard it, or keep it in a smaller dtype.";
    if (gradient > 0) {
      finding.evidence.push_back("Its dense gradient is " + bytes_text(gradient) + " of it.");
      finding.next_step +=
          " If it is an embedding of which a batch uses few rows, sparse=True makes its gradient "
          "as small as these rows.";
    }
    out.push_back(std::move(explanation));
  }
}

}  // namespace plimsoll::analysis::findings
