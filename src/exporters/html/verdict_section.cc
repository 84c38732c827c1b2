#include <algorithm>
#include <cstddef>
#include <string>

#include "base/units.h"
#include "exporters/device_facts.h"
#include "exporters/html/sections.h"
#include "exporters/labels.h"
#include "exporters/point_text.h"
#include "exporters/verdict.h"

namespace plimsoll::exporters::html {
namespace {

std::string severity_class(const report::Finding& finding) {
  return std::string("severity ") + to_string(finding.severity);
}

// The chain of references that a line contains is set apart: it is what the program says.
void write_with_chain(Markup& html, const std::string& line, const report::Finding& finding) {
  const std::string chain = finding.holders.empty() ? "" : finding.holders.front().chain;
  const std::size_t at = chain.empty() ? std::string::npos : line.rfind(chain);
  if (at == std::string::npos) {
    html.text(line);
    return;
  }
  html.text(line.substr(0, at)).open("code");
  write_breakable(html, chain);
  html.close().text(line.substr(at + chain.size()));
}

void write_evidence(Markup& html, const report::Finding& finding) {
  if (!finding.evidence.empty()) {
    html.open("ul", {{"class", "evidence"}});
    for (const std::string& line : finding.evidence) {
      html.open("li");
      write_with_chain(html, line, finding);
      html.close();
    }
    html.close();
  }
  bool is_first = true;
  for (const std::string& step : step_texts(finding)) {
    html.open("p", {{"class", is_first ? "next" : "or"}});
    html.element("span", {}, (is_first ? "" : "or: ") + step).close();
    is_first = false;
  }
}

// "45.1 MiB" as a large number with a small unit.
void write_large(Markup& html, std::int64_t bytes) {
  const std::string text = base::bytes_text(bytes);
  const std::size_t space = text.find(' ');
  html.open("p", {{"class", "big"},
                  {"data-bytes", std::to_string(bytes)},
                  {"title", base::format_count(magnitude(bytes)) + " bytes"}});
  html.text(text.substr(0, space)).element("small", {}, text.substr(space + 1)).close();
}

std::string level(double share, const char* paint, bool is_light) {
  const double width = std::clamp(share, 0.0, 1.0) * 100;
  return "<svg viewBox=\"0 0 100 11\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect "
         "width=\"100\" height=\"11\" class=\"p-line\"/><rect width=\"" +
         number_text(width) + "\" height=\"11\" class=\"p-" + paint + "\"" +
         (is_light ? " fill-opacity=\"0.5\"" : "") + "/></svg>";
}

// The peak next to the expected peak of the next step, and the use of the whole device.
void write_gauge(Markup& html, const DeviceView& view, const report::Finding* first) {
  const report::SeriesTotals& totals = view.report.live_totals();
  html.open("aside", {{"class", "gauge"}, {"aria-label", "Peak"}});
  const bool has_peak = view.report.events > 0;
  if (view.report.disagreement_bytes() > 0) {
    html.element("p", {{"class", "caption"}}, disagreement_text(view.report));
    html.close();
    return;
  }
  if (!totals.is_known) {
    html.element("p", {{"class", "caption"}}, "How much was allocated is unknown.");
    html.close();
    return;
  }
  write_large(html, has_peak ? totals.peak_bytes : totals.end_bytes);
  std::string caption = (has_peak ? "peak on " : "live at the end on ") + device_name(view.report);
  caption += view.report.allocated ? ", allocated" : ", requested";
  if (view.point != nullptr && (view.point->name == "peak" || !has_peak)) {
    if (view.point->step) caption += ", step " + base::format_count(*view.point->step);
    caption += ", " + base::counted(view.point->live_count, "allocation");
  }
  html.element("p", {{"class", "caption"}}, caption);
  if (view.point != nullptr && view.point->name.starts_with("oom")) {
    html.element("p", {{"class", "caption"}},
                 bytes_text(view.point->live_bytes + older_bytes(*view.point)) +
                     " live when memory ran out");
  }
  const auto peak = static_cast<double>(totals.peak_bytes);
  const std::uint64_t saving =
      first != nullptr && report::lowers_peak(first->id) ? first->saving_bytes() : 0;
  if (peak > 0 && saving > 0 && saving < static_cast<std::uint64_t>(totals.peak_bytes)) {
    const std::uint64_t rest = static_cast<std::uint64_t>(totals.peak_bytes) - saving;
    html.open("div", {{"class", "bars"}});
    html.raw(level(1, "activation", false)).element("span", {}, "peak");
    html.raw(level(static_cast<double>(rest) / peak, "activation", true));
    html.element("span", {{"data-bytes", std::to_string(rest)}}, bytes_text(rest));
    html.close();
    const bool is_upper_bound = first->steps.front().is_upper_bound;
    html.element("p", {}, (is_upper_bound ? "saves up to " : "saves ") + bytes_text(saving));
  }
  if (!view.report.bars.empty() && view.report.bars.back().total_bytes > 0) {
    const report::DeviceBarReport& bar = view.report.bars.back();
    const double used = static_cast<double>(bar.used_bytes) / static_cast<double>(bar.total_bytes);
    html.open("div", {{"class", "bars"}}).raw(level(used, "muted", false));
    html.element("span", {}, base::format_percent(used)).close();
    html.element("p", {},
                 bytes_text(bar.used_bytes) + " of the device's " + bytes_text(bar.total_bytes) +
                     " in use by all processes" +
                     (bar.point == "oom" ? " when memory ran out" : ""));
  }
  html.close();
}

}  // namespace

void write_verdict(Markup& html, const report::Report& report,
                   const std::vector<report::Finding>& findings, const DeviceView* view) {
  const std::string_view device = view == nullptr ? std::string_view() : view->input.device;
  const bool is_calm = findings.empty() || is_healthy(report, device);
  const report::Finding* const first = is_calm ? nullptr : &findings.front();
  html.open("section", {{"class", "verdict"}, {"data-section", "verdict"}});
  html.open("div");
  html.open("div", {{"data-copy-finding", ""}});
  if (first != nullptr) {
    html.element("p", {{"class", severity_class(*first)}}, to_string(first->severity));
    html.element("h1", {{"data-finding", first->id}}, first->title);
    write_evidence(html, *first);
  } else {
    const NoFindings calm = no_findings(report, device);
    const bool is_known = view == nullptr || view->report.disagreement_bytes() == 0;
    html.element("p", {{"class", is_known ? "severity none" : "severity warning"}},
                 findings.empty() ? "no finding" : "no warning");
    html.element("h1", {}, calm.title);
    if (!calm.evidence.empty()) {
      html.open("ul", {{"class", "evidence"}}).element("li", {}, calm.evidence).close();
    }
  }
  const bool is_stated = first == nullptr && is_healthy(report, device);
  if (view != nullptr && view->report.last_use && !is_stated) {
    html.element("p", {{"class", "last-use"}}, view->report.last_use->text);
  }
  html.close();
  const std::size_t others = first == nullptr ? 0 : 1;
  if (findings.size() > others) {
    html.open("div", {{"class", "others"}});
    for (std::size_t at = others; at < findings.size(); ++at) {
      html.open("details").open("summary");
      html.element("span", {{"class", severity_class(findings[at])}},
                   to_string(findings[at].severity));
      html.element("span", {{"data-finding", findings[at].id}}, findings[at].title).close();
      write_evidence(html, findings[at]);
      html.close();
    }
    html.close();
  }
  html.close();
  if (view != nullptr) write_gauge(html, *view, first);
  html.close();
}

}  // namespace plimsoll::exporters::html
