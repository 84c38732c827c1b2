// Converts a sample into TensorBoard scalars: tags and values. docs/monitoring-reference.md lists
// them.
//
// A tag's suffix is its unit: _MB (1024 x 1024 bytes), _percent. Sizes without a suffix are
// in GB (1024 MB), as in the tools that these tags come from. Unknown values are omitted. If any
// category is known, a category without tensors has the value 0, so that its curve drops.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/memory_sample.h"

namespace plimsoll::tensorboard {

struct Scalar {
  std::string tag;  // UTF-8
  double value = 0;

  bool operator==(const Scalar&) const = default;
};

struct ScalarOptions {
  std::string section = "Memory";
  std::size_t top_layers = 10;
};

// Tags without a device's name are the sum over the accelerators, or the CPU if there are none. If
// that omits anything, each device has its own tags: "Memory/cuda:1/vram_reserved".
std::vector<Scalar> scalars_of(const MemorySample& sample, const ScalarOptions& options);

// The scalars of the samples of a run. A part of "other" is left out until it is above 0, and where
// accelerators are in use, so is a figure of the CPU's tensors: otherwise many of TensorBoard's
// cards would only show a 0.
class ScalarSeries {
 public:
  explicit ScalarSeries(ScalarOptions options) : options_(std::move(options)) {}

  std::vector<Scalar> next(const MemorySample& sample);

 private:
  ScalarOptions options_;
  std::set<std::string> seen_;  // such tags that have been above 0
};

}  // namespace plimsoll::tensorboard
