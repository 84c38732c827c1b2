// Memory over time as an SVG picture: the timeline of plimsoll plot, for the requested device or
// else the one with the highest peak.
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::svg {

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::svg
