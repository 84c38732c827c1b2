// Determines which module owns a tensor, from the tensor's name alone:
//
//   parameter, buffer   "fc1.weight"          owner "fc1"
//   gradient            "fc1.weight[.grad]"   owner "fc1"
//   optimizer state     "fc1.weight.exp_avg"  owner "fc1": "fc1.weight" is a tensor's name, too
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plimsoll::base {

enum class OwnedAs : std::uint8_t { kParameterOrBuffer, kGradient, kOptimizerState };

// "a.b.c" -> "a.b"; "a" -> "".
inline std::string_view without_last(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

// Returns the owner as a prefix of `name`; empty if the name shows no owner. `is_tensor(part)` says
// whether `part` is the name of a tensor.
template <typename IsTensor>
std::string_view tensor_owner(std::string_view name, OwnedAs kind, IsTensor&& is_tensor) {
  if (kind != OwnedAs::kParameterOrBuffer) {
    constexpr std::size_t kDeepest = 64;  // names may come from a hostile file
    // The parameter is the longest prefix that is itself a tensor's name.
    std::string_view part = without_last(name);
    for (std::size_t i = 0; i < kDeepest && !part.empty(); ++i, part = without_last(part)) {
      if (is_tensor(part)) return without_last(part);
    }
  }
  const std::string_view owner = without_last(name);
  return kind == OwnedAs::kOptimizerState ? without_last(owner) : owner;
}

// The component of a parameter that no layer below the root owns: "xyz" of "GaussianModel.xyz", of
// "Adam.xyz" (a named group of an optimizer), and of "Adam.xyz[3]"; "param_groups[0]" of
// "Adam.param_groups[0][3]". Empty if a layer owns it.
inline std::string_view component_of_parameter(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot != std::string_view::npos) name.remove_prefix(dot + 1);
  if (name.find('.') != std::string_view::npos) return {};
  return name.ends_with(']') ? name.substr(0, name.rfind('[')) : name;
}

}  // namespace plimsoll::base
