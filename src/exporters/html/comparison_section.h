// The sections of the HTML page that compares a recording with an earlier one.
#pragma once

#include <vector>

#include "comparison/diff.h"
#include "exporters/exporter.h"
#include "exporters/html/device_view.h"
#include "exporters/html/markup.h"

namespace plimsoll::exporters::html {

struct ComparedWith {
  const comparison::Diff& diff;
  const ExportInput* before = nullptr;  // null: only a digest, so there is no chart
};

void write_verdict_of_diff(Markup& html, const comparison::Diff& diff);
// Writes both recordings over time on one scale, the points in time that both have, and the rows
// that differ at the peak of each device.
void write_comparison(Markup& html, const ComparedWith& compared,
                      const std::vector<DeviceView>& after);

}  // namespace plimsoll::exporters::html
