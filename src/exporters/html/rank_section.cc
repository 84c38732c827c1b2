#include "exporters/html/rank_section.h"

#include <algorithm>
#include <string>

#include "base/units.h"
#include "charts/ranks.h"
#include "exporters/html/sections.h"
#include "exporters/labels.h"
#include "exporters/verdict.h"

namespace plimsoll::exporters::html {
namespace {

struct RankLine {
  std::string name;
  std::optional<std::int64_t> number = {};
  const report::Report* report = nullptr;
  const report::DeviceReport* device = nullptr;
  std::optional<std::int64_t> difference_bytes = {};
  bool differs = false;
};

std::vector<RankLine> lines_of(const comparison::RankComparison* comparison,
                               const std::vector<report::Report>& reports) {
  std::vector<RankLine> lines;
  if (comparison == nullptr) {
    for (const report::Report& report : reports) {
      lines.push_back(
          {.name = report.source.path, .report = &report, .device = fullest(report, "")});
    }
    return lines;
  }
  for (const comparison::RankRow& rank : comparison->ranks) {
    lines.push_back({.name = "rank " + std::to_string(rank.number),
                     .number = rank.number,
                     .report = &reports[rank.report],
                     .device = rank.device,
                     .difference_bytes = rank.difference_bytes,
                     .differs = rank.differs || rank.first_oom != nullptr});
  }
  return lines;
}

void write_rank_row(Markup& html, const RankLine& line) {
  const std::int64_t peak = line.device == nullptr ? 0 : line.device->live_totals().peak_bytes;
  html.open("tr", {{"data-key", line.name}, {"data-bytes", std::to_string(peak)}});
  html.open("th", {{"scope", "row"}, {"class", "key"}}).text(line.name).close();
  const auto number = [&](std::int64_t bytes, const char* sign) {
    html.element("td",
                 {{"class", "n"},
                  {"data-value", std::to_string(bytes)},
                  {"data-exact", std::to_string(bytes)},
                  {"title", base::format_count(magnitude(bytes)) + " bytes"}},
                 sign + base::bytes_text(bytes));
  };
  if (line.device != nullptr && line.device->disagreement_bytes() > 0) {
    html.element("td", {{"class", "n"}}, "unknown");
  } else {
    number(peak, "");
  }
  if (line.difference_bytes) {
    number(*line.difference_bytes, *line.difference_bytes > 0 ? "+" : "");
  } else {
    html.element("td", {}, "");
  }
  number(line.device == nullptr ? 0 : line.device->live_totals().end_bytes, "");
  const bool failed = line.device != nullptr && !line.device->oom_details.empty();
  html.element("td", {},
               (line.device == nullptr ? "" : device_name(*line.device)) +
                   (failed ? ", out of memory" : ""));
  if (line.number) html.element("td", {{"class", "key"}}, line.report->source.path);
  html.close();
}

// Collapsed, because the page shows only one recording in full.
void write_findings_of(Markup& html, const RankLine& line) {
  const std::vector<report::Finding>& findings = line.report->findings;
  html.open("details");
  html.element(
      "summary", {},
      line.name + ": " +
          (findings.empty() ? no_findings(*line.report, "").text() : findings.front().title));
  html.open("ul", {{"class", "notes"}});
  for (const report::Finding& finding : findings) {
    std::string text = severity_mark(finding) + " " + finding.title + ".";
    if (!finding.steps.empty()) text += " " + step_texts(finding).front();
    html.element("li", {}, text);
  }
  html.close().close();
}

// The comparison's findings, preceded by more severe ones of the rank to read first. For example, a
// leak is a cause, and the difference between its rank and the others is the effect.
std::vector<report::Finding> most_severe(const comparison::RankComparison& comparison,
                                         const report::Report& first) {
  const report::FindingSeverity from = comparison.findings.empty()
                                           ? report::FindingSeverity::kInfo
                                           : comparison.findings.front().severity;
  std::vector<report::Finding> findings;
  for (const report::Finding& finding : first.findings) {
    if (finding.severity <= from) continue;
    findings.push_back(finding);
    findings.back().title =
        "Rank " + std::to_string(first.source.rank.value_or(0)) + ": " + finding.title;
  }
  findings.insert(findings.end(), comparison.findings.begin(), comparison.findings.end());
  return findings;
}

}  // namespace

void write_verdict_of_ranks(Markup& html, const comparison::RankComparison& comparison,
                            const report::Report& first) {
  const std::vector<report::Finding> findings = most_severe(comparison, first);
  if (!findings.empty()) {
    write_verdict(html, {}, findings, nullptr);
    return;
  }
  html.open("section", {{"class", "verdict"}, {"data-section", "verdict"}}).open("div");
  html.element("p", {{"class", "severity none"}}, "no finding");
  html.element("h1", {}, "The " + std::to_string(comparison.ranks.size()) + " ranks are alike.");
  html.close().close();
}

void write_ranks(Markup& html, const comparison::RankComparison* comparison,
                 const std::vector<report::Report>& reports) {
  const std::vector<RankLine> lines = lines_of(comparison, reports);
  html.open("section",
            {{"data-section", "ranks"}, {"id", comparison != nullptr ? "ranks" : "recordings"}});
  write_head(
      html, comparison != nullptr ? "Ranks" : "Recordings",
      comparison != nullptr ? "the peak of each step, compared with the median of that step" : "");
  if (comparison != nullptr) {
    std::vector<charts::RankSteps> steps;
    for (const RankLine& line : lines) {
      if (line.device != nullptr) {
        steps.push_back(charts::steps_of(*line.report, line.device->device, *line.number));
      }
    }
    write_chart(html, "Peak of each step on each rank", "r",
                {{"wide", 1360, 0}, {"medium", 820, 0}, {"narrow", 400, 0}},
                [&](charts::ChartOptions options) {
                  options.has_legend = true;
                  return charts::ranks(steps, options);
                });
  }
  html.open("div", {{"class", "scroll"}});
  html.open("table", {{"data-table", "ranks"}, {"data-fold", ""}}).open("thead").open("tr");
  html.element("th", {{"scope", "col"}, {"data-sort", "text"}},
               comparison != nullptr ? "rank" : "recording");
  for (const std::string& name :
       {std::string("peak"), comparison == nullptr ? "" : "to " + comparison->reference,
        std::string("at the end")}) {
    html.element("th", {{"scope", "col"}, {"class", "n"}, {"data-sort", "number"}}, name);
  }
  html.element("th", {{"scope", "col"}}, "device");
  if (comparison != nullptr) html.element("th", {{"scope", "col"}}, "file");
  html.close().close().open("tbody");
  for (const RankLine& line : lines) write_rank_row(html, line);
  html.close().close().close();
  for (const RankLine& line : lines) write_findings_of(html, line);
  html.close();
}

}  // namespace plimsoll::exporters::html
