// Folded stacks by layer, operator and line instead of calls: `cpu;Net;Net.fc;aten::linear;leaf
// bytes`. See exporters/layer_stacks.h for the frames, and collapsed_exporter.h for the format.
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::collapsed {

std::unique_ptr<Exporter> make_layers();

}  // namespace plimsoll::exporters::collapsed
