// one_layer_dominates, one_line_dominates, one_tensor_dominates: a single place fills the peak.
#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "findings/advice/advice.h"
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

// "One layer fills 50.0% of the peak on cpu: Net.3 holds 1.0 GiB of 2.0 GiB".
std::string title_of(const Peak& peak, const std::string& kind, const std::string& name,
                     const Explanation& of_place) {
  return "One " + kind + " fills " + share_text(peak, of_place.bytes) + ": " + name + " holds " +
         bytes_text(of_place.bytes) + " of " + bytes_text(peak.bytes());
}

// For each layer, and for "no layer", the layers inside it that make activations in this recording.
std::map<model::LayerId, std::set<model::LayerId>> layers_inside(Peak& peak) {
  std::map<model::LayerId, std::set<model::LayerId>> inside;
  peak.for_each([&](const Allocation& allocation) {
    const model::LayerId layer = peak.layer(allocation);
    const bool is_activation = allocation.category() == model::kActivation;
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
  const Allocation& first = largest_of(explanation.parts);
  finding.id = "one_line_dominates";
  finding.title = (is_one_line ? "One line fills " : "The lines of one function fill ") +
                  amount_text(peak, explanation.bytes) + (is_one_line ? " at " : ", most at ") +
                  first.label();
  finding.evidence.push_back("It holds " + parts_text(explanation.parts) + callers_text(first) +
                             ".");
  const std::string_view layer = peak.trace().strings[first.site().layer];
  if (!layer.empty()) finding.evidence.push_back("The layer is " + std::string(layer) + ".");
  finding.steps = steps_for_logits(peak, explanation.parts, finding);
  if (finding.steps.empty()) advise_line(peak, explanation.parts, finding);
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
Place function_of(Peak& peak, const Allocation& allocation) {
  if (!allocation.is_of_training()) return {};
  const model::Frame& frame = peak.trace().stacks.frame(peak.facts().lines.frame(allocation.stack));
  const std::string_view name = peak.trace().strings[frame.function];
  if (model::is_forward(name) || name == "<module>") return {};
  return {.file = frame.file.value,
          .function = frame.function.value,
          .layer = allocation.site().layer.value};
}

// Whether there are too many parts for one place. Allocations by the backward of an expression
// outside all layers, such as a loss, do not count: they do not indicate a loop over layers.
bool is_loop(const Parts& parts) {
  const auto counted = std::ranges::count_if(parts, [](const Allocation& each) {
    return each.site().layer != model::StringId{} || each.phase() != model::Phase::kBackward;
  });
  return static_cast<std::size_t>(counted) > kMostTensors || parts.size() > 2 * kMostTensors;
}

}  // namespace

void explain_line(Peak& peak, Explanations& out) {
  std::map<Place, Explanation> places;
  for (const Allocation& each : peak.live()) {
    // The purpose of memory from before the recording is unknown.
    if (!each.has_line() || each.born == model::kNone || each.is_of_model()) continue;
    if (!is_at_least(each.size_bytes, kLargeTensor, peak.bytes())) continue;
    if (peak.is_of_torch_optimizer(each)) continue;  // explain_optimizer has the advice
    places[Place{.line = each.line().value}].add(each);
    const Place function = function_of(peak, each);
    if (function.function != 0) places[function].add(each);
  }
  for (auto& [place, explanation] : places) {
    const Parts& parts = explanation.parts;
    if (is_loop(parts) || !peak.is_much(explanation.bytes, kShareOfPlace)) continue;
    const bool is_line = std::ranges::all_of(
        parts, [&](const Allocation& each) { return each.line() == parts.front().get().line(); });
    if (is_line && place.function != 0) continue;
    out.push_back(report_line(peak, std::move(explanation), is_line));
  }
}

void explain_layer(Peak& peak, Explanations& out) {
  auto inside = layers_inside(peak);
  const std::size_t made = inside[model::kNoLayer].size();
  if (made < kFewestLayers) return;
  std::map<model::LayerId, Explanation> layers;  // each with the layers inside it
  Explanation all(peak.live_if([](const Allocation& each) { return each.is_of_training(); }));
  for (const Allocation& each : all.parts) {
    model::LayerId layer = peak.layer(each);
    for (; layer != model::kNoLayer; layer = peak.layers().parent(layer)) layers[layer].add(each);
  }
  // During its backward any layer has gradients and temporaries.
  const auto kept = [&](const Explanation& of) {
    return bytes_of(
        those_of(of.parts, [](const Allocation& each) { return each.is(model::kActivation); }));
  };
  const std::uint64_t all_kept = kept(all);
  // The deepest one: layers inside have larger numbers.
  for (auto& [layer, explanation] : layers | std::views::reverse) {
    const bool is_root = peak.layers().parent(layer) == model::kNoLayer;
    if (is_root || is_at_least(inside[layer].size(), kMostOfLayers, made)) continue;
    if (!is_at_least(explanation.bytes, kShareOfAllLayers, all.bytes)) continue;
    if (!is_at_least(kept(explanation), kShareOfAllLayers, all_kept)) continue;
    if (!peak.is_much(explanation.bytes, kShareOfPlace)) continue;
    report::Finding& finding = explanation.finding;
    const std::string& path = peak.layers().path(layer);
    const std::string line = line_of_most(explanation.parts).first;
    finding.id = "one_layer_dominates";
    finding.title = title_of(peak, "layer", path, explanation);
    finding.evidence = {"It holds " + lines_text(explanation.parts) + ".",
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
  for (const Allocation& each : peak.live()) {
    const std::string_view name = parameter_of(each);
    if (!name.empty()) parameters[name].add(each);
  }
  for (auto& [name, explanation] : parameters) {
    if (!peak.is_much(explanation.bytes, kShareOfPlace)) continue;
    report::Finding& finding = explanation.finding;
    std::map<std::string_view, std::uint64_t> bytes;  // by category
    for (const Allocation& each : explanation.parts) bytes[each.category()] += each.size_bytes;
    const char* const kind = bytes.contains(model::kBuffer) ? "buffer" : "parameter";
    finding.id = "one_tensor_dominates";
    finding.title =
        title_of(peak, kind, std::string(name), explanation) + " with what belongs to it";
    finding.evidence.push_back("It holds " + parts_text(explanation.parts) + ".");
    const std::uint64_t gradient = bytes[model::kGradient], state = bytes[model::kOptimizerState];
    if (gradient > 0) {
      finding.evidence.push_back("Its dense gradient is " + bytes_text(gradient) + " of it.");
    }
    if (state > 0) {
      finding.evidence.push_back("Its optimizer state is " + bytes_text(state) + " of it.");
    }
    if (dense_embeddings(peak).contains(name)) {
      finding.steps = steps_for_embeddings(peak, {name});
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
