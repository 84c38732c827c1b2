// A chart: a drawing and its plot area, from which a script can map the pointer to data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "page/drawing.h"

namespace plimsoll::charts {

struct ChartOptions {
  double width = 960;  // of the whole drawing, in pixels; at least 200
  double height = 0;   // 0: a height that suits the chart
  std::string title;   // above the chart; empty: none, for a page that has its own headings
  std::string subtitle;
  bool has_legend = false;
  double bytes_at_top = 0;  // minimum top of the y axis, so that two charts can share a scale
};

// A mark at a point in time, such as the cross of a failure.
struct ChartMark {
  double x = 0, y = 0;     // its center
  std::int64_t point = 0;  // the state right after this event
};

struct Chart {
  page::Drawing drawing;
  double x = 0, y = 0, width = 0, height = 0;  // of the plot area
  double bytes_at_top = 0;  // at the top of the y axis, which begins at 0; 0: no y axis
  std::vector<ChartMark> marks;
  std::string description;  // the text alternative: one or two sentences
};

}  // namespace plimsoll::charts
