// What a sample looks like in TensorBoard: its tags and their values. docs/monitoring.md lists
// them.
//
// A tag's suffix is its unit: _MB (1024 x 1024 bytes), _bytes, _percent. Sizes without a suffix are
// in GB (1024 MB), as the tools whose tags these are count them. What is unknown has no value. A
// category without a tensor has the value 0 if others are known, so that its curve falls.
#pragma once

#include <cstddef>
#include <string>
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

// Tags without a device's name speak of the accelerators together, or of the CPU where there is
// none; where that leaves something out, each device has its own, "Memory/cuda:1/vram_reserved".
std::vector<Scalar> scalars_of(const MemorySample& sample, const ScalarOptions& options);

}  // namespace plimsoll::tensorboard
