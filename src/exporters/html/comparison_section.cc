#include "exporters/html/comparison_section.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "base/path_text.h"
#include "base/units.h"
#include "charts/timeline.h"
#include "exporters/html/sections.h"
#include "exporters/labels.h"

namespace plimsoll::exporters::html {
namespace {

constexpr std::size_t kMostDifferences = 200;

// Writes a table cell with a number of bytes. `sign` is "+" or empty.
void write_size(Markup& html, std::int64_t bytes, const char* sign = "") {
  html.element("td",
               {{"class", "n"},
                {"data-value", std::to_string(bytes)},
                {"title", base::format_count(magnitude(bytes)) + " bytes"}},
               sign + base::bytes_text(bytes));
}

void write_sizes(Markup& html, std::int64_t before, std::int64_t after, std::int64_t difference) {
  write_size(html, before);
  write_size(html, after);
  write_size(html, difference, difference > 0 ? "+" : "");
}

void write_header(Markup& html, std::initializer_list<const char*> texts,
                  std::initializer_list<const char*> more = {}) {
  html.open("thead").open("tr");
  const auto text_column = [&](const char* name) {
    html.element("th", {{"scope", "col"}, {"data-sort", "text"}}, name);
  };
  for (const char* const name : texts) text_column(name);
  for (const char* const name : {"before", "after", "difference"}) {
    html.element("th", {{"scope", "col"}, {"class", "n"}, {"data-sort", "number"}}, name);
  }
  for (const char* const name : more) text_column(name);
  html.close().close();
}

void write_compared_points(Markup& html, const comparison::Diff& diff) {
  html.open("div", {{"class", "scroll"}}).open("table", {{"data-table", "compared-points"}});
  write_header(html, {"point", "device"});
  html.open("tbody");
  for (const comparison::DiffPoint& point : diff.points) {
    html.open("tr", {{"data-key", point.name + " on " + point.device},
                     {"data-bytes", std::to_string(magnitude(point.difference_bytes))}});
    html.element("th", {{"scope", "row"}}, point.name);
    html.element("td", {}, point.device);
    write_sizes(html, point.before_bytes, point.after_bytes, point.difference_bytes);
    html.close();
  }
  html.close().close().close();
}

void write_difference(Markup& html, const comparison::DiffPoint& point,
                      const comparison::DiffRow& row) {
  html.open("tr", {{"data-key", row.place + " " + row.layer + " " + row.category},
                   {"data-bytes", std::to_string(magnitude(row.difference_bytes))}});
  html.open("th", {{"scope", "row"}, {"class", "key"}});
  write_place(html, row.place.empty() ? row.function : row.place);
  html.close();
  html.open("td");
  write_breakable(html, row.layer);
  html.close();
  html.element("td", {}, spaced(row.category));
  write_sizes(html, row.before_bytes, row.after_bytes, row.difference_bytes);
  html.element("td", {}, row.cause ? point.causes[*row.cause].title : "");
  html.close();
}

// The rows sum to the difference: the last row has the bytes that no other row lists, including
// those of a moved peak.
void write_differences(Markup& html, const comparison::DiffPoint& point) {
  html.open("div", {{"class", "scroll"}});
  html.open("table", {{"data-table", "differences"}, {"data-fold", ""}});
  write_header(html, {"line", "layer", "category"}, {"cause"});
  html.open("tbody");
  std::int64_t left = point.difference_bytes;
  for (std::size_t i = 0; i < std::min(point.rows.size(), kMostDifferences); ++i) {
    write_difference(html, point, point.rows[i]);
    left -= point.rows[i].difference_bytes;
  }
  if (left != 0) {
    const bool has_moved = !point.compared_with.empty();
    html.open(
        "tr",
        {{"class", "rest"}, {"data-key", "rest"}, {"data-bytes", std::to_string(magnitude(left))}});
    html.element(
        "th", {{"scope", "row"}, {"class", "key"}},
        has_moved ? "the peak moved to another phase, and everything else" : "everything else");
    html.element("td", {}, "").element("td", {}, "");
    html.element("td", {{"class", "n"}}, "").element("td", {{"class", "n"}}, "");
    write_size(html, left, left > 0 ? "+" : "");
    html.element("td", {}, "").close();
  }
  html.close().close().close();
}

// Writes a chart of memory over time in three widths; the page shows the one that fits.
void write_timeline(Markup& html, const charts::TimelineData& data, double bytes_at_top,
                    const std::string& title, const std::string& id) {
  write_chart(html, title, id, {{"wide", 1360, 260}, {"medium", 820, 250}, {"narrow", 400, 240}},
              [&](charts::ChartOptions options) {
                const std::size_t parts = options.width > 1000 ? 1 : options.width > 600 ? 2 : 4;
                options.has_legend = true;
                options.bytes_at_top = bytes_at_top;
                return charts::timeline(charts::coarser(data, kWideColumns / parts), options);
              });
}

double bytes_at_top(const charts::TimelineData& data) {
  return charts::timeline(data, {}).bytes_at_top;
}

std::optional<charts::TimelineData> earlier_timeline(const ExportInput& before,
                                                     const DeviceView& after) {
  const std::string device = device_name(after.report);
  for (std::size_t at = 0; at < before.report.devices.size(); ++at) {
    const model::DeviceTrace& trace = before.trace.devices[at];
    if (device_name(before.report.devices[at]) != device || trace.events.size() == 0) continue;
    return charts::timeline_data(before.trace, trace, before.report.devices[at], before.lines,
                                 {.by = after.over_time.by, .columns = kWideColumns});
  }
  return std::nullopt;
}

void write_both_over_time(Markup& html, const ComparedWith& compared, const DeviceView& after) {
  if (compared.before == nullptr || after.columns().empty()) return;
  const auto before = earlier_timeline(*compared.before, after);
  if (!before || before->columns.empty()) return;
  const double top = std::max(bytes_at_top(*before), bytes_at_top(after.over_time));
  const std::string device = device_name(after.report);
  const std::string number = std::to_string(after.number);
  const auto write_one = [&](const charts::TimelineData& data, const std::string& path,
                             const std::string& which) {
    html.element("h3", {}, which + ": " + std::string(base::file_name(path)));
    write_timeline(html, data, top, "Memory over time on " + device + ", " + which,
                   "c" + which + number);
  };
  write_one(*before, compared.diff.before.path, "before");
  write_one(after.over_time, compared.diff.after.path, "after");
}

}  // namespace

void write_verdict_of_diff(Markup& html, const comparison::Diff& diff) {
  if (!diff.findings.empty()) {
    write_verdict(html, {}, diff.findings, nullptr);
    return;
  }
  html.open("section", {{"class", "verdict"}, {"data-section", "verdict"}}).open("div");
  html.element("p", {{"class", "severity none"}}, "no finding");
  html.element("h1", {}, "No difference above 0.1% at any point.");
  html.close().close();
}

void write_comparison(Markup& html, const ComparedWith& compared,
                      const std::vector<DeviceView>& after) {
  const comparison::Diff& diff = compared.diff;
  html.open("section", {{"data-section", "comparison"}, {"id", "comparison"}});
  write_head(html, "Before and after", "on one scale; every table sums to the byte");
  for (const DeviceView& view : after) {
    if (view.number < kDevicesWithDetails) write_both_over_time(html, compared, view);
  }
  write_compared_points(html, diff);
  std::set<std::string> devices;  // the first point of each device is its peak
  for (const comparison::DiffPoint& point : diff.points) {
    if (!devices.insert(point.device).second || point.rows.empty()) continue;
    const std::string other =
        point.compared_with.empty()
            ? ""
            : ", compared with the highest point of the other's " + point.compared_with;
    html.element("h3", {}, "What differs at the " + point.name + " on " + point.device + other);
    write_differences(html, point);
  }
  if (!diff.notes.empty()) {
    html.open("ul", {{"class", "notes"}});
    for (const std::string& note : diff.notes) html.element("li", {}, note);
    html.close();
  }
  html.close();
}

}  // namespace plimsoll::exporters::html
