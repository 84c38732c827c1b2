#include "model/layers.h"

#include <algorithm>
#include <optional>

#include "base/tensor_owner.h"
#include "model/categories.h"

namespace plimsoll::model {
namespace {

// Limit against hostile files: the rest of a deeper path becomes one name.
constexpr std::size_t kDeepest = 64;

std::optional<base::OwnedAs> owned_as(std::string_view category) {
  if (category == kParameter || category == kBuffer) return base::OwnedAs::kParameterOrBuffer;
  if (category == kGradient) return base::OwnedAs::kGradient;
  if (category == kOptimizerState) return base::OwnedAs::kOptimizerState;
  return std::nullopt;
}

}  // namespace

Layers::Layers(const Trace& trace) : trace_(trace), by_word_(trace.strings.size(), kNone) {
  layers_.push_back(Layer{});
  ids_.emplace("", kNoLayer);
  for (const Tensor& tensor : trace.tensors) tensor_names_.insert(trace.strings[tensor.name]);
}

LayerId Layers::of(const DeviceTrace& device, std::size_t lifetime) {
  if (const TensorId tensor = device.lifetimes.tensor[lifetime]; tensor != TensorId{}) {
    const StringId name = trace_.tensors[tensor.index()].name;
    const StringId category = trace_.category(device, lifetime);
    const std::uint64_t key = std::uint64_t{name.value} << 32 | category.value;
    const auto [place, is_new] = by_name_.try_emplace(key, kNoLayer.value);
    if (is_new) place->second = owner_of(name, category).value;
    if (place->second != kNoLayer.value) return LayerId{place->second};
  }
  const StringId word = trace_.birth(device, lifetime).layer;
  std::uint32_t& known = by_word_[word.index()];
  if (known == kNone) known = named(trace_.strings[word]).value;
  return LayerId{known};
}

LayerId Layers::owner_of(StringId tensor_name, StringId category) {
  const auto kind = owned_as(trace_.strings[category]);
  if (!kind) return kNoLayer;
  const auto is_tensor = [&](std::string_view name) { return tensor_names_.contains(name); };
  return named(base::tensor_owner(trace_.strings[tensor_name], *kind, is_tensor));
}

LayerId Layers::find(std::string_view path) const {
  const auto found = ids_.find(std::string(path));
  return found == ids_.end() ? kNoLayer : found->second;
}

LayerId Layers::named(std::string_view path) {
  if (const LayerId known = find(path); known != kNoLayer) return known;
  LayerId last = kNoLayer;
  std::size_t depth = 0;
  for (std::size_t end = 0; end != path.size(); ++depth) {
    end = depth < kDeepest ? std::min(path.find('.', end + 1), path.size()) : path.size();
    const auto next = LayerId{static_cast<std::uint32_t>(layers_.size())};
    const auto [place, is_new] = ids_.try_emplace(std::string(path.substr(0, end)), next);
    if (is_new) layers_.push_back(Layer{place->first, last});
    last = place->second;
  }
  return last;
}

}  // namespace plimsoll::model
