#include <algorithm>
#include <array>
#include <string>

#include "base/units.h"
#include "charts/frame.h"
#include "charts/timeline.h"
#include "exporters/html/sections.h"
#include "exporters/labels.h"
#include "exporters/point_text.h"
#include "page/escape.h"

namespace plimsoll::exporters::html {
namespace {

struct TimelineSize {
  ChartSize chart;
  std::size_t columns;  // a divisor of kWideColumns
};
constexpr std::array kSizes = {TimelineSize{{"wide", 1360, 390}, kWideColumns},
                               TimelineSize{{"medium", 820, 370}, kWideColumns / 2},
                               TimelineSize{{"narrow", 400, 330}, kWideColumns / 4}};

std::string unused_text(std::uint64_t bytes) {
  return bytes_text(bytes) + " " + charts::kNotUsedAgain;
}

// Describes a column, for readers who point at it without a script.
std::string column_text(const DeviceView& view, std::size_t at) {
  constexpr std::size_t kMostNamed = 4;
  const charts::TimelineData& data = view.over_time;
  const tiles::Column& column = data.columns[at];
  std::string text = base::bytes_text(view.points[view.of_column[at]].bytes);
  text += column.point < 0
              ? " before the first event"
              : ", event " + base::format_count(static_cast<std::uint64_t>(column.point));
  if (column.reserved_bytes > 0) text += "; reserved " + base::bytes_text(column.reserved_bytes);
  if (view.input.trace.has_uses) text += "; " + unused_text(data.unused_bytes(at));
  std::vector<std::size_t> bands;
  for (std::size_t band = 0; band < data.bands.names.size(); ++band) {
    if (data.bands.of(band)[at] > 0) bands.push_back(band);
  }
  std::ranges::sort(bands, std::greater{},
                    [&](std::size_t band) { return data.bands.of(band)[at]; });
  for (std::size_t i = 0; i < std::min(bands.size(), kMostNamed); ++i) {
    text += "\n" + page::shortened(data.bands.names[bands[i]], 60) + " " +
            bytes_text(data.bands.of(bands[i])[at]);
  }
  return text;
}

// A part of the chart that selects a point.
std::string selector(const DeviceView& view, std::size_t row, double x, double y, double width,
                     double height, const std::string& title) {
  const std::int64_t bytes = view.points[row].bytes;
  std::string svg = "<rect data-at=\"" + std::to_string(row) + "\" data-bytes=\"" +
                    std::to_string(bytes) + "\" x=\"" + number_text(x) + "\" y=\"" +
                    number_text(y) + "\" width=\"" + number_text(width) + "\" height=\"" +
                    number_text(height) + "\">";
  if (!title.empty()) svg += "<title>" + page::escape_html(title) + "</title>";
  return svg + "</rect>";
}

// The column, among `count` columns of the widest chart, that shows the same point.
std::size_t column_with(const DeviceView& view, std::int64_t point, std::size_t first,
                        std::size_t count) {
  for (std::size_t at = first; at < first + count; ++at) {
    if (view.columns()[at].point == point) return at;
  }
  return first;
}

// Transparent rectangles on top of the bands: the browser shows their titles, and the script
// handles their events. Marks are above the columns, so that a failure can be selected even if its
// column shows another point.
std::string selectors(const DeviceView& view, const charts::TimelineData& data,
                      const charts::Chart& chart, bool has_titles) {
  constexpr double kMarkSize = 18;
  std::string svg = "<g class=\"columns\">";
  const std::size_t group = kWideColumns / data.columns.size();
  const double width = chart.width / static_cast<double>(data.columns.size());
  for (std::size_t at = 0; at < data.columns.size(); ++at) {
    const std::size_t column = column_with(view, data.columns[at].point, at * group, group);
    svg += selector(view, view.of_column[column], chart.x + width * static_cast<double>(at),
                    chart.y, width, chart.height, has_titles ? column_text(view, at) : "");
  }
  svg += "</g><g class=\"marks\">";
  for (const charts::ChartMark& mark : chart.marks) {
    const auto row = view.row_of(mark.point);
    if (!row) continue;  // an early one of many failures
    svg += selector(view, *row, mark.x - kMarkSize / 2, mark.y - kMarkSize / 2, kMarkSize,
                    kMarkSize, "");
  }
  return svg + "</g>";
}

// One line about what fills the device at the tables' point in time.
void write_point(Markup& html, const DeviceView& view) {
  html.open("p", {{"class", "point"}});
  if (view.point != nullptr) {
    const std::uint64_t bytes = view.point->live_bytes + older_bytes(*view.point);
    html.element("b", {{"data-bytes", std::to_string(bytes)}},
                 point_bytes(view.report, *view.point));
    html.open("span");
    write_breakable(html, point_place(view.report, *view.point));
    html.close();
    if (view.input.trace.has_uses) {
      const std::uint64_t unused = view.points[view.chosen].unused_bytes;
      html.element("span", {{"data-unused", std::to_string(unused)}}, unused_text(unused));
    }
  }
  html.close();
}

}  // namespace

void write_over_time(Markup& html, const DeviceView& view) {
  if (view.columns().empty()) return;
  html.open("section",
            {{"data-section", "timeline"}, {"id", "time-" + std::to_string(view.number)}});
  html.open("div", {{"class", "head"}}).element("h2", {}, "Memory over time");
  html.element("span", {{"class", "sub"}},
               "each column shows the point in its span with the most live bytes");
  html.element("span", {{"class", "sub hint"}, {"hidden", ""}},
               "Click a column or a mark, or use the arrow keys, to see what fills memory there. "
               "Drag over a span, or press +, - and 0, to zoom.");
  html.close().open("div", {{"class", "chart over-time"}});
  const bool has_details = view.number < kDevicesWithDetails;
  for (const TimelineSize& size : kSizes) {
    const bool is_wide = size.columns == kWideColumns;
    if (is_wide && !has_details) continue;
    const charts::TimelineData data = charts::coarser(view.over_time, size.columns);
    charts::ChartOptions options;
    options.width = size.chart.width;
    options.height = size.chart.height;
    options.has_legend = true;
    const charts::Chart chart = charts::timeline(data, options);
    const std::string overlay =
        has_details ? selectors(view, data, chart, is_wide && view.number == 0) : "";
    const bool is_broad = !has_details && size.columns == kWideColumns / 2;
    html.raw(chart_svg(chart, is_broad ? "broad" : size.chart.name,
                       "Memory over time on " + device_name(view.report),
                       "t" + std::to_string(view.number), overlay));
  }
  html.close();
  write_point(html, view);
  html.close();
}

}  // namespace plimsoll::exporters::html
