// Memory over time as an PNG picture: the timeline of plimsoll plot, for the device that was asked
// for, else for the one with the highest peak.
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::png {

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::png
