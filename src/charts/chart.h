// A chart: a drawing, and where its plot area is, so that a script can map the pointer to data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "page/drawing.h"

namespace plimsoll::charts {

struct ChartOptions {
  double width = 960;  // of the whole drawing, in pixels; at least 200
  double height = 0;   // 0: what suits the chart
  std::string title;   // above the chart; empty: none, as in a page with headings of its own
  std::string subtitle;
  bool has_legend = false;
};

// A mark at a point in time, such as the cross of a failure.
struct ChartMark {
  double x = 0, y = 0;     // its center
  std::int64_t point = 0;  // right after this event
};

struct Chart {
  page::Drawing drawing;
  double x = 0, y = 0, width = 0, height = 0;  // of the plot area
  double bytes_at_top = 0;                     // of the y axis, which begins at 0; 0: no such axis
  std::vector<ChartMark> marks;
  std::string description;  // the text alternative: one or two sentences
};

}  // namespace plimsoll::charts
