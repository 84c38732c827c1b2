// The layout of TensorBoard's dashboard "Custom Scalars": which tags share a chart. The tags that
// most users need come first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/memory_sample.h"

namespace plimsoll::tensorboard {

struct Chart {
  std::string title;
  std::vector<std::string> tags;  // regular expressions that match from the start of a tag

  bool operator==(const Chart&) const = default;
};

struct ChartGroup {
  std::string title;
  std::vector<Chart> charts;

  bool operator==(const ChartGroup&) const = default;
};

// The charts for the devices of a sample. With accelerators there is no chart of the CPU's tensors.
std::vector<ChartGroup> layout_of(const MemorySample& sample, const std::string& section);

// The layout as a serialized tensorboard.Layout.
std::string layout_message(const std::vector<ChartGroup>& groups);

}  // namespace plimsoll::tensorboard
