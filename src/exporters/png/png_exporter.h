// Memory over time as a PNG picture: the timeline of plimsoll plot, for the requested device or
// else the one with the highest peak.
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::png {

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::png
