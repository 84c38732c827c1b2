// The table of functions that are wrapped, by the symbols under which they are looked up.
#pragma once

#include <string_view>

namespace plimsoll::cuda_driver {

struct WrappedFunction {
  std::string_view symbol;
  // A wrapper that calls `real`; `real` itself when all wrappers are in use.
  void* (*wrap)(void* real);
};

// Returns null if no wrapped function has this name.
const WrappedFunction* find_wrapped(std::string_view symbol);

}  // namespace plimsoll::cuda_driver
