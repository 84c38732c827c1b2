// Layers as an icicle: the width of a box is the live bytes of the layer and all layers inside it,
// which are the boxes below it. A stripe shows the phases that allocated the bytes.
#pragma once

#include <cstdint>

#include "charts/chart.h"
#include "report/report.h"

namespace plimsoll::charts {

// Shows the layers of a device at the report's point in time; equal layers share a box. Without
// layers, the chart is a sentence.
Chart layers(const report::Report& report, std::int32_t device, const ChartOptions& options);

}  // namespace plimsoll::charts
