// Converts the engine's error values to Python exceptions, which plimsoll.errors defines.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>
#include <utility>

#include "plimsoll/result.h"

namespace plimsoll::python {

// A message as a str, with escapes for bytes that are not UTF-8: messages quote paths, which may
// contain any bytes.
nanobind::object decoded(std::string_view message);

// Throws the exception of plimsoll.errors for the error's code. Needs the GIL.
[[noreturn]] void raise(const Error& error);

inline void raise_if_failed(const Status& status) {
  if (!status) raise(status.error());
}

template <typename T>
T value_or_raise(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(result).value();
}

}  // namespace plimsoll::python
