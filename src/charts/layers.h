// Layers as an icicle: the width of a box is the layer's live bytes with all layers inside it, and
// the boxes below it are these. A stripe shows the phases that allocated the bytes.
#pragma once

#include <cstdint>

#include "charts/chart.h"
#include "report/report.h"

namespace plimsoll::charts {

// Of the layers of a device at the report's point in time, equal layers as one box. A sentence if
// there are none.
Chart layers(const report::Report& report, std::int32_t device, const ChartOptions& options);

}  // namespace plimsoll::charts
