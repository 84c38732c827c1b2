// one_layer_dominates, one_line_dominates, one_tensor_dominates: a single place fills the peak.
#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "findings/advice/line_advice.h"
#include "findings/advice/logits.h"
#include "findings/peak/owners.h"
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
// Of what all layers hold.
constexpr double kShareOfAllLayers = 0.6;
// In a model with fewer layers, a single layer or a container naturally fills much of it.
constexpr std::size_t kFewestLayers = 4;
constexpr double kMostOfLayers = 0.6;

// Whether the parts, of one place, are much of the peak.
bool dominates(const Peak& peak, const Explanation& of_place) {
  return of_place.bytes >= kLeastPeakBytes &&
         is_at_least(of_place.bytes, kShareOfPlace, peak.bytes());
}

// "One layer fills 50.0% of the peak on cpu: Net.3 holds 1.0 GiB of 2.0 GiB".
std::string title_of(const Peak& peak, const std::string& kind, const std::string& name,
                     const Explanation& of_place) {
  return "One " + kind + " fills " + share_text(peak, of_place.bytes) + ": " + name + " holds " +
         bytes_text(of_place.bytes) + " of " + bytes_text(peak.bytes());
}

bool is_of_model(std::string_view category) {
  return category == model::kParameter || category == model::kBuffer ||
         category == model::kOptimizerState || category == model::kGradient;
}

// For each layer, and for "no layer", the layers inside it that make activations in this recording.
std::map<model::LayerId, std::set<model::LayerId>> layers_inside(Peak& peak) {
  std::map<model::LayerId, std::set<model::LayerId>> inside;
  peak.for_each([&](const PeakAllocation& allocation) {
    const model::LayerId layer = peak.layer(allocation);
    const bool is_activation = peak.category(allocation) == model::kActivation;
    if (!is_activation || !inside[layer].insert(layer).second) return;
    for (model::LayerId around = layer; around != model::kNoLayer;) {
      around = peak.layers().parent(around);
      inside[around].insert(layer);
    }
  });
  inside[model::kNoLayer].erase(model::kNoLayer);
  return inside;
}

Explanation report_line(const Peak& peak, Explanation explanation, bool is_one_line) {
  report::Finding& finding = explanation.finding;
  const PeakAllocation& first = peak.live()[*std::ranges::max_element(
      explanation.parts, {}, [&](std::uint32_t part) { return peak.live()[part].size_bytes; })];
  const std::string line = peak.line_label(first);
  finding.id = "one_line_dominates";
  finding.title = (is_one_line ? "One line fills " : "The lines of one function fill ") +
                  share_text(peak, explanation.bytes) + ": " + bytes_text(explanation.bytes) +
                  " of " + bytes_text(peak.bytes()) + (is_one_line ? " at " : ", most at ") + line;
  finding.evidence.push_back("It holds " + parts_text(peak, explanation.parts) +
                             callers_text(peak, first) + ".");
  const std::string_view layer = peak.trace().strings[peak.site(first).layer];
  if (!layer.empty()) finding.evidence.push_back("The layer is " + std::string(layer) + ".");
  finding.steps = steps_for_logits(peak, explanation.parts, finding);
  if (finding.steps.empty()) advise_line(peak, explanation.parts, line, finding);
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
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!peak.has_line(allocation)) continue;
    // The purpose of memory from before the recording is unknown.
    if (allocation.born == model::kNone || is_of_model(peak.category(allocation))) continue;
    if (!is_at_least(allocation.size_bytes, kLargeTensor, peak.bytes())) continue;
    if (peak.is_of_torch_optimizer(allocation)) continue;  // explain_optimizer has the advice
    places[Place{.line = peak.line(allocation).value}].add(peak, part);
    if (const Place place = function_of(peak, allocation); place.function != 0) {
      places[place].add(peak, part);
    }
  }
  for (auto& [place, explanation] : places) {
    if (is_loop(peak, explanation.parts) || !dominates(peak, explanation)) continue;
    const PeakAllocation& first = peak.live()[explanation.parts.front()];
    const bool is_line = place.function == 0;
    const auto is_on_line = [&](std::uint32_t part) {
      return peak.line(peak.live()[part]) == peak.line(first);
    };
    if (!is_line && std::ranges::all_of(explanation.parts, is_on_line)) continue;
    out.push_back(report_line(peak, std::move(explanation), is_line));
  }
}

void explain_layer(Peak& peak, Explanations& out) {
  auto inside = layers_inside(peak);
  const std::size_t made = inside[model::kNoLayer].size();
  if (made < kFewestLayers) return;
  std::map<model::LayerId, Explanation> layers;  // each with the layers inside it
  Explanation all;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!is_of_training(peak.category(allocation))) continue;
    all.add(peak, part);
    model::LayerId layer = peak.layer(allocation);
    for (; layer != model::kNoLayer; layer = peak.layers().parent(layer)) {
      layers[layer].add(peak, part);
    }
  }
  // During its backward any layer has gradients and temporaries.
  const auto kept = [&](const Explanation& each) {
    std::uint64_t bytes = 0;
    for (const std::uint32_t part : each.parts) {
      const PeakAllocation& allocation = peak.live()[part];
      if (peak.category(allocation) == model::kActivation) bytes += allocation.size_bytes;
    }
    return bytes;
  };
  const std::uint64_t all_kept = kept(all);
  // The deepest one: layers inside have larger numbers.
  for (auto& [layer, explanation] : layers | std::views::reverse) {
    const bool is_root = peak.layers().parent(layer) == model::kNoLayer;
    if (is_root || is_at_least(inside[layer].size(), kMostOfLayers, made)) continue;
    if (!is_at_least(explanation.bytes, kShareOfAllLayers, all.bytes)) continue;
    if (!is_at_least(kept(explanation), kShareOfAllLayers, all_kept)) continue;
    if (!dominates(peak, explanation)) continue;
    report::Finding& finding = explanation.finding;
    const std::string& path = peak.layers().path(layer);
    const std::string line = line_of_most(peak, explanation.parts).first;
    finding.id = "one_layer_dominates";
    finding.title = title_of(peak, "layer", path, explanation);
    finding.evidence = {"It holds " + lines_text(peak, explanation.parts) + ".",
                        "Activations, their gradients and temporaries of all layers are " +
                            bytes_text(all.bytes) + "."};
    finding.steps = {{"Make " + (is_named(line) ? "the tensors of " + line : path) + " smaller."},
                     {"Run " + path + " in chunks of the batch" +
                      (peak.may_train() ? std::string(kEachThroughCheckpoint) : "") + "."}};
    out.push_back(std::move(explanation));
    return;
  }
}

// A parameter with its gradient and its optimizer state.
void explain_parameter(Peak& peak, Explanations& out) {
  std::map<std::string_view, Explanation> parameters;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    const std::string_view name = parameter_of(peak, allocation);
    if (is_of_model(peak.category(allocation)) && !name.empty()) parameters[name].add(peak, part);
  }
  for (auto& [name, explanation] : parameters) {
    if (!dominates(peak, explanation)) continue;
    report::Finding& finding = explanation.finding;
    std::map<std::string_view, std::uint64_t> bytes;  // by category
    for (const std::uint32_t part : explanation.parts) {
      const PeakAllocation& allocation = peak.live()[part];
      bytes[peak.category(allocation)] += allocation.size_bytes;
    }
    finding.id = "one_tensor_dominates";
    const bool is_buffer = bytes.contains(model::kBuffer);
    finding.title =
        title_of(peak, is_buffer ? "buffer" : "parameter", std::string(name), explanation) +
        " with what belongs to it";
    finding.evidence.push_back("It holds " + parts_text(peak, explanation.parts) + ".");
    const std::uint64_t gradient = bytes[model::kGradient], state = bytes[model::kOptimizerState];
    if (gradient > 0) {
      finding.evidence.push_back("Its dense gradient is " + bytes_text(gradient) + " of it.");
    }
    if (state > 0) {
      finding.evidence.push_back("Its optimizer state is " + bytes_text(state) + " of it.");
    }
    if (const auto embeddings = dense_embeddings(peak); embeddings.contains(name)) {
      finding.steps = steps_for_embeddings(peak, {name});
      out.push_back(std::move(explanation));
      continue;
    }
    finding.steps = {{"Make " + std::string(name) + " smaller, or shard it over your devices."}};
    if (state > 0) {
      finding.steps.push_back(
          {"Keep its optimizer state in 8 bits (AdamW8bit of bitsandbytes or torchao)."});
    }
    out.push_back(std::move(explanation));
  }
}

}  // namespace plimsoll::findings
