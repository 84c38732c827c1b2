// Live memory at the report's point in time, by layer, then operator, then line: the flame graph of
// a model. The frames of a row are the layer's ancestors and the layer itself, each with its full
// path ("UNet", "UNet.down", "UNet.down.0"); then the operator that allocated it or, for memory
// that a module owns or that has no operator, its category in brackets ("[parameter]"); then the
// source line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exporters/exporter.h"
#include "model/trace.h"

namespace plimsoll::exporters {

struct LayerStack {
  std::vector<std::string> frames;  // root first; never empty
  std::uint64_t bytes = 0;
};

struct LayerStacks {
  const model::DeviceTrace* device = nullptr;
  std::string point;
  std::vector<LayerStack> rows;  // neighbors share their ancestors
};

// One entry for each device with a point in time, as in live_stacks().
std::vector<LayerStacks> layer_stacks(const ExportInput& input);

}  // namespace plimsoll::exporters
