// Writes the memory of tensors by category as scalars, and measures the calls of a function.
//
//   plimsoll::log_tensor_memory_breakdown(
//       [&](const std::string& tag, double value, std::int64_t step) { ... }, iteration);
//   auto load = plimsoll::monitor_memory("load", load_dataset);
//   auto data = load("train.bin");  // [Memory] load: CPU +450.2 MB, ...
//
// Link plimsoll::monitor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "plimsoll/monitor.h"

namespace plimsoll {

struct BreakdownOptions {
  std::int64_t interval = 50;      // iterations between samples; positive
  std::string section = "Memory";  // prefix of the tags
  double large_tensor_mb = 100;    // MB of 1024 x 1024 bytes
  std::size_t top_layers = 10;     // number of the largest layers that have tags
};

using ScalarWriter =
    std::function<void(const std::string& tag, double value, std::int64_t iteration)>;

// Writes the memory of tensors every `interval` iterations, with the tags of
// docs/monitoring-reference.md, such as Memory/Tensor_Category/parameters_MB. Does nothing at other
// iterations. Calls start_watching(). Call it on the thread that trains. Exceptions of the writer
// reach the caller.
Status log_tensor_memory_breakdown(const ScalarWriter& write, std::int64_t iteration,
                                   const BreakdownOptions& options = {});

// Returns the function with a TrackMemory around each call. Arguments, result and exceptions pass
// through.
template <typename Function>
auto monitor_memory(std::string name, Function function, LinePrinter print = print_to_stdout) {
  return [name = std::move(name), function = std::move(function),
          print = std::move(print)](auto&&... arguments) mutable -> decltype(auto) {
    const TrackMemory tracked(name, print);
    return std::invoke(function, std::forward<decltype(arguments)>(arguments)...);
  };
}

}  // namespace plimsoll
