#include "exporters/html/notebook_exporter.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/units.h"
#include "charts/timeline.h"
#include "exporters/html/encoding.h"
#include "exporters/html/sections.h"
#include "exporters/labels.h"
#include "exporters/point_text.h"
#include "exporters/verdict.h"
#include "page/svg.h"

namespace plimsoll::exporters::html {
namespace {

constexpr std::size_t kMostRows = 6;        // of each table
constexpr std::size_t kMostFindings = 4;    // only the first with its evidence
constexpr std::size_t kMostBytes = 60'000;  // of the fragment
constexpr std::size_t kMostColumns = 220;
constexpr std::size_t kFewestColumns = 20;

void write_findings(Markup& html, const report::Report& report, std::string_view device) {
  if (report.findings.empty()) {
    html.element("p", {}, no_findings(report, device).text());
    return;
  }
  for (std::size_t at = 0; at < std::min(report.findings.size(), kMostFindings); ++at) {
    const report::Finding& finding = report.findings[at];
    html.open("p").element("b", {}, severity_mark(finding) + " ").text(finding.title).close();
    if (at > 0) continue;
    html.open("ul");
    for (const std::string& line : finding.evidence) html.element("li", {}, line);
    html.close();
    const char* mark = "\u2192 ";
    for (const std::string& step : step_texts(finding)) {
      html.element("p", {}, mark + step);
      mark = "or: ";
    }
  }
  if (report.findings.size() > kMostFindings) {
    html.element(
        "p", {},
        base::counted(report.findings.size() - kMostFindings, "finding") + " more in the report.");
  }
}

void write_image(Markup& html, const ExportInput& input, std::size_t device, std::size_t columns) {
  const model::DeviceTrace& trace = input.trace.devices[device];
  const report::DeviceReport& report = input.report.devices[device];
  if (trace.events.size() == 0) return;
  const charts::TimelineData data =
      charts::timeline_data(input.trace, trace, report, input.lines, {.columns = columns});
  charts::ChartOptions options;
  options.width = 900;
  options.has_legend = true;
  const charts::Chart chart = charts::timeline(data, options);
  page::SvgOptions svg;
  svg.theme = page::Theme::kLight;
  html.empty("img",
             {{"alt", chart.description},
              {"width", "900"},
              {"src", "data:image/svg+xml;base64," + base64(page::to_svg(chart.drawing, svg))}});
}

void write_rows(Markup& html, const char* name, const report::PointInTime& point,
                const std::vector<const report::GroupRow*>& rows) {
  if (rows.empty()) return;
  html.open("table").open("thead").open("tr").element("th", {}, name).element("th", {}, "bytes");
  html.element("th", {}, "share").element("th", {}, "count").close().close().open("tbody");
  for (std::size_t at = 0; at < std::min(rows.size(), kMostRows); ++at) {
    const report::GroupRow& row = *rows[at];
    html.open("tr", {{"data-bytes", std::to_string(row.bytes)}}).open("td");
    write_breakable(html, row.key);
    html.close().element("td", {}, bytes_text(row.bytes));
    html.element("td", {}, share_text(row.bytes, point));
    html.element("td", {}, base::format_count(row.count)).close();
  }
  html.close().close();
}

class NotebookExporter final : public Exporter {
 public:
  const char* name() const override { return "notebook"; }
  const char* description() const override {
    return "verdict, chart and largest rows as a fragment of HTML, for notebooks";
  }
  const char* suffix() const override { return ".notebook.html"; }
  const char* default_point() const override { return kPointOfPages; }
  bool shows_allocations() const override { return false; }

  Status write(const ExportInput& input, Output& output) const override {
    // A chart of many bands gets fewer columns.
    std::string text = fragment(input, kMostColumns);
    for (std::size_t columns = kMostColumns / 2; text.size() > kMostBytes; columns /= 2) {
      text = fragment(input, columns);
      if (columns <= kFewestColumns) break;
    }
    return output.write(text);
  }

 private:
  static std::string fragment(const ExportInput& input, std::size_t columns) {
    Markup html;
    html.open("div");
    write_findings(html, input.report, input.device);
    const report::DeviceReport* const device = fullest(input.report, input.device);
    if (device != nullptr) {
      write_image(html, input, static_cast<std::size_t>(device - input.report.devices.data()),
                  columns);
      const auto points = rows_of(input.report.tables.points, *device);
      if (!points.empty()) {
        const report::PointInTime& point = *points.front();
        html.element("p", {}, point_heading(*device, point));
        write_rows(html, "category", point, rows_of(input.report.tables.by_category, *device));
        write_rows(html, "line", point, rows_of(input.report.tables.by_line, *device));
      }
    }
    html.close();
    return html.take() + "\n";
  }
};

}  // namespace

std::unique_ptr<Exporter> make_notebook() { return std::make_unique<NotebookExporter>(); }

}  // namespace plimsoll::exporters::html
