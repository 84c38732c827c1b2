// Parts that all charts share: title, legend, axes, labels.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "charts/chart.h"
#include "page/drawing.h"
#include "page/text_width.h"
#include "page/ticks.h"

namespace plimsoll::charts {

// Margins of charts, in pixels.
inline constexpr double kMargin = 12;       // of title, legend and charts without a y axis
inline constexpr double kRightMargin = 14;  // of charts with a y axis
inline constexpr double kLeftMargin = 16;   // in addition to the labels of the y axis
inline constexpr double kPeakMargin = 24;   // above the plot, for the label of the peak
inline constexpr double kAxisSize = 11;     // of the text on axes

// "optimizer_state" -> "optimizer state".
std::string spaced(std::string_view name);
// A name of any length for a legend or tooltip.
std::string short_name(std::string_view name);
using base::bytes_text;

struct LegendEntry {
  std::string label;
  page::Fill fill = {};      // a square
  page::Stroke stroke = {};  // or a line
  bool begins_row = false;   // starts a new row, for entries about another subject
};

// What no operator uses again (docs/last-use.md): a hatch on top of the color of the memory. Its
// lines fall, so that it also shows on categories that are hatched.
inline constexpr const char* kNotUsedAgain = "not used again";
inline constexpr page::Fill kNotUsedAgainHatch = {page::Paint::kNone, 1, page::Paint::kBackground,
                                                  page::HatchSlope::kFalling};
inline constexpr page::Fill kNotUsedAgainSwatch = {page::Paint::kMuted, 1, page::Paint::kBackground,
                                                   page::HatchSlope::kFalling};

// Draws title, subtitle and legend; returns the y below them.
double add_header(page::Drawing& drawing, const ChartOptions& options,
                  const std::vector<LegendEntry>& legend);

// A rectangle of the drawing.
struct PlotArea {
  double x = 0, y = 0, width = 0, height = 0;

  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

double tick_label_width(const std::vector<page::Tick>& ticks);
// Draws grid lines and labels; the top of the plot is bytes_at_top.
void add_byte_axis(page::Drawing& drawing, const PlotArea& plot,
                   const std::vector<page::Tick>& ticks, double bytes_at_top);

// Draws a text on a background, so that it is legible on top of lines.
void add_plated(page::Drawing& drawing, const page::Text& text);
inline page::Font font_of(const page::Text& text) {
  return {text.size, text.is_bold, text.is_mono};
}

// Labels along an axis, from left to right. One that would touch its neighbor is left out.
class LabelRow {
 public:
  LabelRow(page::Drawing& drawing, double baseline) : drawing_(drawing), baseline_(baseline) {}

  // Draws what the labels count, to the left of the axis, ending at x.
  void add_caption(double x, const std::string& caption);
  void add(double center, const std::string& label);

 private:
  page::Drawing& drawing_;
  double baseline_;
  double end_ = 0;  // right edge of the last label
};

// A bold label for a mark at x, at most as wide as the plot. Uses the first of the texts that fits:
// right of x + gap, else left of x - gap, else anywhere in the plot.
page::Text label_next_to(const PlotArea& plot, double x, double gap, double baseline,
                         const std::vector<std::string>& texts);

// A drawing that only states why there is no chart.
Chart message_chart(const std::string& message, const ChartOptions& options);

}  // namespace plimsoll::charts
