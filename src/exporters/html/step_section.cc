#include <algorithm>
#include <string>

#include "base/units.h"
#include "charts/steps.h"
#include "exporters/html/sections.h"
#include "exporters/labels.h"
#include "exporters/point_text.h"
#include "page/escape.h"

namespace plimsoll::exporters::html {
namespace {

constexpr std::size_t kMostSteps = 200;  // rows of the table; the chart shows all

void write_growth(Markup& html, const std::vector<const report::GrowthRow*>& rows) {
  if (rows.empty()) return;
  html.open("div", {{"class", "panel"}});
  html.open("div", {{"class", "head"}}).element("h3", {}, "Lines that grow from step to step");
  html.close().open("div", {{"class", "scroll"}});
  html.open("table", {{"data-table", "growth"}, {"data-fold", ""}}).open("thead").open("tr");
  html.element("th", {{"scope", "col"}}, "line");
  html.element("th", {{"scope", "col"}, {"class", "n"}, {"data-sort", "number"}}, "per step");
  html.element("th", {{"scope", "col"}, {"class", "n"}, {"data-sort", "number"}}, "total growth");
  html.element("th", {{"scope", "col"}, {"class", "n"}, {"data-sort", "number"}}, "at the end");
  html.close().close().open("tbody");
  for (const report::GrowthRow* row : rows) {
    html.open("tr", {{"data-key", page::shortened(row->line, kLongestName)},
                     {"data-bytes", std::to_string(row->grown_bytes)}});
    html.open("th", {{"scope", "row"}, {"class", "key"}});
    write_place(html, row->line);
    html.close();
    write_bytes(html, static_cast<std::uint64_t>(std::max(0.0, row->bytes_per_step)));
    write_bytes(html, static_cast<std::uint64_t>(std::max<std::int64_t>(0, row->grown_bytes)));
    write_bytes(html, static_cast<std::uint64_t>(std::max<std::int64_t>(0, row->last_bytes)));
    html.close();
  }
  html.close().close().close().close();
}

void write_step_table(Markup& html, const std::vector<const report::StepRow*>& rows) {
  html.open("details").element("summary", {}, "All steps");
  html.open("div", {{"class", "scroll"}});
  html.open("table", {{"data-table", "steps"}}).open("thead").open("tr");
  html.element("th", {{"scope", "col"}, {"data-sort", "number"}}, "step");
  for (const char* const name : {"peak", "floor", "allocated"}) {
    html.element("th", {{"scope", "col"}, {"class", "n"}, {"data-sort", "number"}}, name);
  }
  html.element("th", {{"scope", "col"}, {"class", "n"}, {"data-sort", "number"}}, "allocations");
  html.close().close().open("tbody");
  const std::size_t first = rows.size() - std::min(rows.size(), kMostSteps);
  for (std::size_t at = first; at < rows.size(); ++at) {
    const report::StepRow& row = *rows[at];
    html.open("tr", {{"data-key", std::to_string(row.step)},
                     {"data-bytes", std::to_string(row.peak_bytes)}});
    html.element("th", {{"scope", "row"}, {"data-value", std::to_string(row.step)}},
                 row.is_complete ? base::format_count(row.step) : report::kAfterLastStep);
    write_bytes(html, row.peak_bytes);
    write_bytes(html, row.end_bytes);
    write_bytes(html, row.allocated_bytes);
    html.element("td", {{"class", "n"}, {"data-value", std::to_string(row.allocations)}},
                 base::format_count(row.allocations));
    html.close();
  }
  html.close().close().close();
  if (first > 0) {
    html.element("p", {{"class", "sub"}},
                 "The last " + base::format_count(kMostSteps) + " of " +
                     base::format_count(rows.size()) + " steps.");
  }
  html.close();
}

// For a recording without marked steps, whose growth was found in its stacks.
void write_growth_alone(Markup& html, const DeviceView& view,
                        const std::vector<const report::GrowthRow*>& rows) {
  if (rows.empty()) return;
  const report::GrowthRow& first = *rows.front();
  html.open("section",
            {{"data-section", "growth"}, {"id", "growth-" + std::to_string(view.number)}});
  write_head(html, "Growth",
             base::counted(first.steps, "step") + " compared; what marks them: " +
                 (first.boundary == "cycle" ? "minima of the total" : first.boundary));
  write_growth(html, rows);
  html.close();
}

}  // namespace

void write_steps(Markup& html, const DeviceView& view) {
  const auto rows = rows_of(view.input.report.tables.steps, view.report);
  const auto growth = rows_of(view.input.report.tables.growth, view.report);
  if (rows.empty()) {
    write_growth_alone(html, view, growth);
    return;
  }
  html.open("section", {{"data-section", "steps"}, {"id", "steps-" + std::to_string(view.number)}});
  write_head(html, "Steps", "each bar spans a step's floor (live at its end) and its peak");
  write_chart(html, "Floor and peak of each step", "p" + std::to_string(view.number),
              {{"wide", 1360, 190}, {"medium", 820, 180}, {"narrow", 400, 170}},
              [&](const charts::ChartOptions& options) {
                return charts::steps(view.input.report, view.report.device, options);
              });
  write_growth(html, growth);
  write_step_table(html, rows);
  html.close();
}

}  // namespace plimsoll::exporters::html
