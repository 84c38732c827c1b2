// What was live at the report's moment, by layer, then operator, then line: the flame graph of a
// model. The frames of a row are the layer's ancestors and the layer itself, each with its whole
// path ("UNet", "UNet.down", "UNet.down.0"); then the operator that allocated it, or for what a
// module owns and what no operator made its category in brackets ("[parameter]"); then the source
// line.
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
  std::string moment;
  std::vector<LayerStack> rows;  // neighbours share their ancestors
};

// One entry for each device that has a moment, as live_stacks() has.
std::vector<LayerStacks> layer_stacks(const ExportInput& input);

}  // namespace plimsoll::exporters
