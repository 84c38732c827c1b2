#include "model/layers.h"

#include <algorithm>

#include "model/categories.h"

namespace plimsoll::model {
namespace {

// Of a file's making: beyond, the rest of a path is one name.
constexpr std::size_t kDeepest = 64;

// "a.b.c" -> "a.b"; "a" -> "".
std::string_view without_last(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

bool is_owned(std::string_view category) {
  return category == kParameter || category == kGradient || category == kOptimizerState ||
         category == kBuffer;
}

}  // namespace

Layers::Layers(const Trace& trace) : trace_(trace), by_word_(trace.strings.size(), kNone) {
  layers_.push_back(Layer{});
  ids_.emplace("", kNoLayer);
  for (const Tensor& tensor : trace.tensors) tensor_names_.insert(trace.strings[tensor.name]);
}

LayerId Layers::of(std::size_t event) {
  const Events& events = trace_.events;
  if (const TensorId tensor = events.tensor[event]; tensor != TensorId{}) {
    const StringId name = trace_.tensors[tensor.index()].name;
    const StringId category = events.category[event];
    const std::uint64_t key = std::uint64_t{name.value} << 32 | category.value;
    const auto [place, is_new] = by_name_.try_emplace(key, kNoLayer.value);
    if (is_new) place->second = owner_of(name, category).value;
    if (place->second != kNoLayer.value) return LayerId{place->second};
  }
  const StringId word = events.layer[event];
  std::uint32_t& known = by_word_[word.index()];
  if (known == kNone) known = named(trace_.strings[word]).value;
  return LayerId{known};
}

LayerId Layers::owner_of(StringId tensor_name, StringId category) {
  const std::string_view name = trace_.strings[tensor_name];
  const std::string_view kind = trace_.strings[category];
  if (!is_owned(kind)) return kNoLayer;
  if (kind == kGradient || kind == kOptimizerState) {
    // The parameter is the longest part that is a tensor's name of its own.
    std::string_view part = without_last(name);
    for (std::size_t i = 0; i < kDeepest && !part.empty(); ++i, part = without_last(part)) {
      if (tensor_names_.contains(part)) return named(without_last(part));
    }
  }
  const std::string_view owner = without_last(name);
  return named(kind == kOptimizerState ? without_last(owner) : owner);
}

LayerId Layers::named(std::string_view path) {
  if (const auto found = ids_.find(std::string(path)); found != ids_.end()) return found->second;
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
