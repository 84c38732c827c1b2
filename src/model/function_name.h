// Facts about a Python function, from its name in stacks.
#pragma once

#include <string_view>

namespace plimsoll::model {

// A module's forward: "forward", "Net.forward".
inline bool is_forward(std::string_view function) {
  return function == "forward" || function.ends_with(".forward");
}

// Code inside another function: "Net.forward.<locals>.<listcomp>".
inline bool is_comprehension(std::string_view function) {
  return function.ends_with("comp>") || function.ends_with("<genexpr>");
}

}  // namespace plimsoll::model
