// Tables of the text report that need a native recording: layers, memory kept for backward, steps.
// Each is empty if the report has no rows for the device.
#pragma once

#include <cstddef>
#include <string>

#include "report/report.h"
#include "text/style.h"

namespace plimsoll::exporters::terminal {

// The tree of layers, largest first, with `top` rows, and its legend, which ends a heading.
struct LayerTreeText {
  std::string heading;
  std::string table;
};
LayerTreeText layer_tree(const report::Report& report, const report::DeviceReport& device,
                         std::size_t top, std::size_t width, text::Color color);

std::string saved_table(const report::Report& report, const report::DeviceReport& device,
                        std::size_t top, std::size_t width, text::Color color);

std::string step_table(const report::Report& report, const report::DeviceReport& device,
                       std::size_t top, std::size_t width, text::Color color);

}  // namespace plimsoll::exporters::terminal
