// The sections of the page. Each writes nothing if the recording has no data for it.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "charts/chart.h"
#include "exporters/html/device_view.h"
#include "exporters/html/markup.h"
#include "report/report.h"

namespace plimsoll::exporters::html {

inline constexpr std::size_t kMostLayers = 24;  // rows of the tree of layers, and thus its depth

// Writes the first finding in full, the others collapsed, and the peak as one large number.
void write_verdict(Markup& html, const report::Report& report,
                   const std::vector<report::Finding>& findings, const DeviceView* view);

// Sections about one device:
void write_over_time(Markup& html, const DeviceView& view);
void write_contents(Markup& html, const DeviceView& view);
void write_steps(Markup& html, const DeviceView& view);
void write_segments(Markup& html, const DeviceView& view);
void write_failures(Markup& html, const DeviceView& view);
void write_totals(Markup& html, const DeviceView& view);
void write_holders(Markup& html, const DeviceView& view);

void write_input_notes(Markup& html, const report::Report& report);

// The data for the script: the tables of write_contents() at every column.
void write_points(Markup& html, const DeviceView& view);

// Parts that sections share:
void write_head(Markup& html, std::string_view title, std::string_view sub);
std::string number_text(double value);  // of a coordinate: at most two decimals
std::string spaced(std::string name);   // "optimizer_state" -> "optimizer state"
std::string swatch(page::Paint paint);
std::string bar(double share, page::Paint paint);
// A cell with a size and its exact bytes.
void write_bytes(Markup& html, std::uint64_t bytes);
// A long name that may be broken after each dot and underscore.
void write_breakable(Markup& html, std::string_view text);
// "blocks.py:57 (forward)" with the function set apart; other texts as they are.
void write_place(Markup& html, std::string_view label);
// "at the peak", "when memory ran out", "after event 12".
std::string place_in_time(const report::PointInTime& point);
// A hidden sentence: `what` is shown for `place`, not for the selected point. The script shows it
// while another point is selected.
void write_fixed_point(Markup& html, const std::string& what, const std::string& place);
// A chart in several widths; the style sheet shows the one that fits. `id` is unique in the page.
struct ChartSize {
  const char* name;  // CSS class
  double width;
  double height;  // 0: a height that suits the chart
};
void write_chart(Markup& html, std::string_view title, const std::string& id,
                 std::initializer_list<ChartSize> sizes,
                 const std::function<charts::Chart(const charts::ChartOptions&)>& make);
// Returns one SVG with `more` on top of it.
std::string chart_svg(const charts::Chart& chart, std::string_view size, std::string_view title,
                      const std::string& id, std::string_view more = {});

}  // namespace plimsoll::exporters::html
