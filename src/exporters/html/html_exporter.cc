#include "exporters/html/html_exporter.h"

#include <algorithm>
#include <utility>

#include "base/path_text.h"
#include "base/units.h"
#include "exporters/device_facts.h"
#include "exporters/html/assets.h"
#include "exporters/html/encoding.h"
#include "exporters/html/rank_section.h"
#include "exporters/labels.h"
#include "exporters/point_text.h"
#include "exporters/verdict.h"
#include "page/paint.h"
#include "page/svg.h"
#include "plimsoll/version.h"
#include "report/devices.h"

namespace plimsoll::exporters::html {
namespace {

constexpr std::size_t kMostDevices = 4;  // with charts and tables; others get one line

std::string style() {
  const std::string light = page::css_of_paints(page::Theme::kLight);
  const std::string dark =
      page::css_of_paints(page::Theme::kDark) + "--panel:#1a1e23;--rule:#22272d;color-scheme:dark;";
  std::string depths;
  for (std::size_t depth = 1; depth < kMostLayers; ++depth) {
    const std::string number = std::to_string(depth);
    depths += ".depth-" + number + "{--depth:" + number + "}";
  }
  return std::string(kStyle) + depths + ":root{" + light + "}@media (prefers-color-scheme:dark){" +
         ":root:not([data-theme=light]){" + dark + "}}:root[data-theme=dark]{" + dark + "}" +
         "@media print{:root:root:root{" + light + "--background:#ffffff;color-scheme:light;}}" +
         page::css_of_classes();
}

// The devices with a section each, fullest first, and a line for each other device.
struct Devices {
  std::vector<DeviceView> views;
  std::vector<std::string> others;
};

Devices devices_of(const ExportInput& input) {
  const report::Report& report = input.report;
  std::vector<std::size_t> order;
  Devices devices;
  std::string empty_ones;
  for (std::size_t at = 0; at < report.devices.size(); ++at) {
    const report::DeviceReport& device = report.devices[at];
    if (!is_asked_for(device, input.device)) continue;
    if (!report::has_content(device)) {
      empty_ones += (empty_ones.empty() ? "" : ", ") + device_name(device);
    } else if (!has_section(report, device, input.device)) {
      devices.others.push_back(small_text(device));
    } else {
      order.push_back(at);
    }
  }
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t at) {
    return report.devices[at].live_totals().peak_bytes;
  });
  for (const std::size_t at : order) {
    if (devices.views.size() < kMostDevices) {
      devices.views.push_back(make_view(input, at, devices.views.size()));
    } else {
      const report::DeviceReport& device = report.devices[at];
      devices.others.push_back(device_name(device) + ": peak " +
                               base::bytes_text(device.live_totals().peak_bytes) + ", end " +
                               base::bytes_text(device.live_totals().end_bytes) + ".");
    }
  }
  if (!empty_ones.empty()) {
    devices.others.push_back(empty_ones + ": nothing recorded, nothing reserved.");
  }
  return devices;
}

// The first section of a page about several recordings.
struct FirstSection {
  std::string subject;  // "3 recordings"
  std::string relation;
  const char* target;
  const char* name;  // null: no link
};

void write_top(Markup& html, const report::Report& report, const Devices& devices,
               const FirstSection* section) {
  html.open("header", {{"class", "top"}});
  html.open("span", {{"class", "brand"}});
  html.raw(
      "<svg viewBox=\"0 0 22 22\" aria-hidden=\"true\"><circle cx=\"11\" cy=\"11\" "
      "r=\"6.4\"/><path d=\"M1 11H21\"/></svg>");
  html.text("Plimsoll").close();
  html.open("span", {{"class", "file"}});
  if (section != nullptr && !section->subject.empty()) {
    html.element("b", {}, section->subject).text(section->relation);
  }
  html.element("b", {{"title", report.source.path}}, base::file_name(report.source.path));
  std::string facts;
  for (const DeviceView& view : devices.views) {
    facts += (facts.empty() ? " \u00b7 " : ", ") + device_name(view.report);
  }
  facts += " \u00b7 " + base::counted(report.source.events, "event");
  html.text(facts).close();
  html.open("nav", {{"aria-label", "Sections"}});
  const auto link = [&](const std::string& target, const char* name) {
    html.element("a", {{"href", "#" + target}}, name);
  };
  if (section != nullptr && section->name != nullptr) link(section->target, section->name);
  if (!devices.views.empty()) {
    const DeviceView& first = devices.views.front();
    if (!first.columns().empty()) link("time-0", "Over time");
    if (!first.report.oom_details.empty()) link("oom-0", "Out of memory");
    if (first.point != nullptr && first.point->live_count > 0)
      link("contents-0", "What fills memory");
    const bool has_steps = !rows_of(report.tables.steps, first.report).empty();
    if (has_steps) link("steps-0", "Steps");
    if (!has_steps && !rows_of(report.tables.growth, first.report).empty()) {
      link("growth-0", "Growth");
    }
    if (first.report.segments > 0) link("segments-0", "Segments");
    if (first.point != nullptr && !rows_of(report.tables.holders, first.report).empty()) {
      link("holders-0", "What holds it");
    }
  }
  html.close();
  html.element("button", {{"class", "theme"}, {"type", "button"}, {"hidden", ""}}, "Dark").close();
}

void write_device(Markup& html, const DeviceView& view, bool is_only) {
  html.open("article", {{"data-device", device_name(view.report)}});
  if (!is_only) {
    html.open("h2", {{"class", "device-name"}}).text(device_name(view.report));
    html.element("span", {}, events_text(view.report)).close();
  }
  write_over_time(html, view);
  write_failures(html, view);
  write_contents(html, view);
  write_steps(html, view);
  write_segments(html, view);
  write_totals(html, view);
  write_holders(html, view);
  write_points(html, view);
  html.close();
}

void write_foot(Markup& html, const report::Report& report) {
  const report::Source& source = report.source;
  html.open("footer");
  html.element("span", {}, source.path);
  html.element("span", {},
               source.format + (source.bytes > 0 ? " \u00b7 " + bytes_text(source.bytes) : "") +
                   " \u00b7 " + base::counted(source.events, "event"));
  if (!source.command.empty()) html.element("span", {}, source.command);
  for (const std::string& fact : program_facts(source)) html.element("span", {}, fact);
  html.element("span", {},
               "Plimsoll " PLIMSOLL_VERSION
               ". This page contains source paths, function names and lines of source.");
  html.close();
}

std::string document(const std::string& title, const std::string& body) {
  const std::string css = style();
  Markup html;
  html.raw("<!doctype html>\n").open("html", {{"lang", "en"}}).open("head");
  html.empty("meta", {{"charset", "utf-8"}});
  html.empty("meta",
             {{"http-equiv", "Content-Security-Policy"},
              {"content", "default-src 'none'; style-src " + hash_source(css) + "; script-src " +
                              hash_source(kScript) + "; base-uri 'none'; form-action 'none'"}});
  html.empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  html.raw(std::string(kGenerator) + PLIMSOLL_VERSION "\">");
  html.empty("meta", {{"name", "color-scheme"}, {"content", "light dark"}});
  html.element("title", {}, title);
  html.open("style").raw(css).close().close();
  html.open("body").raw(body);
  html.open("script").raw(kScript).close();
  html.close().close().raw("\n");
  return html.take();
}

std::string page_title(const report::Report& report, const std::vector<report::Finding>& findings) {
  const std::string file(base::file_name(report.source.path));
  return findings.empty() ? file + " \u2013 Plimsoll" : findings.front().title + " \u2013 " + file;
}

// Everything below the verdict of one recording.
void write_recording(Markup& html, const report::Report& report, const Devices& devices) {
  for (const DeviceView& view : devices.views) {
    write_device(html, view, devices.views.size() == 1);
  }
  if (!devices.others.empty()) {
    html.open("section", {{"data-section", "other-devices"}}).open("ul", {{"class", "notes"}});
    for (const std::string& line : devices.others) html.element("li", {}, line);
    html.close().close();
  }
  write_input_notes(html, report);
  write_foot(html, report);
}

class HtmlExporter final : public Exporter {
 public:
  const char* name() const override { return "html"; }
  const char* description() const override { return "the report as a page, for any browser"; }
  const char* suffix() const override { return ".html"; }
  const char* default_point() const override { return kPointOfPages; }
  bool shows_allocations() const override { return false; }

  Status write(const ExportInput& input, Output& output) const override {
    return output.write(to_page(input));
  }
};

}  // namespace

std::string to_page(const ExportInput& input) {
  const report::Report& report = input.report;
  const Devices devices = devices_of(input);
  Markup html;
  write_top(html, report, devices, nullptr);
  html.open("main");
  write_verdict(html, report, report.findings,
                devices.views.empty() ? nullptr : &devices.views.front());
  write_recording(html, report, devices);
  html.close();
  return document(page_title(report, report.findings), html.take());
}

std::string to_page_of_several(const SeveralRecordings& several, const ExportInput& shown) {
  const Devices devices = devices_of(shown);
  const std::size_t count = several.ranks.size() + several.others.size();
  const FirstSection section = {count > 1 ? base::counted(count, "recording") : "",
                                " \u00b7 in full: ", "ranks",
                                several.comparison ? "Ranks" : nullptr};
  Markup html;
  write_top(html, shown.report, devices, &section);
  html.open("main");
  if (several.comparison) {
    write_verdict_of_ranks(html, *several.comparison, shown.report);
    write_ranks(html, &*several.comparison, several.ranks);
  }
  if (!several.others.empty()) write_ranks(html, nullptr, several.others);
  if (!several.unreadable.empty()) {
    html.open("section", {{"data-section", "unreadable"}});
    write_head(html, "Not read", "");
    html.open("ul", {{"class", "notes"}});
    for (const std::string& message : several.unreadable) {
      html.element("li", {{"class", "severe"}}, message);
    }
    html.close().close();
  }
  write_head(html, base::file_name(shown.report.source.path),
             several.comparison ? "the rank to read first" : "the recording with the highest peak");
  write_verdict(html, shown.report, shown.report.findings,
                devices.views.empty() ? nullptr : &devices.views.front());
  write_recording(html, shown.report, devices);
  html.close();
  return document(
      base::counted(count, several.comparison ? "rank" : "recording") + " \u2013 Plimsoll",
      html.take());
}

std::string to_page_against(const ComparedWith& compared, const ExportInput& after) {
  const Devices devices = devices_of(after);
  const comparison::Diff& diff = compared.diff;
  const std::string before(base::file_name(diff.before.path));
  const FirstSection section = {before, " \u2192 ", "comparison", "Before and after"};
  Markup html;
  write_top(html, after.report, devices, &section);
  html.open("main");
  write_verdict_of_diff(html, diff);
  write_comparison(html, compared, devices.views);
  write_head(html, base::file_name(after.report.source.path), "the later recording in full");
  write_verdict(html, after.report, after.report.findings,
                devices.views.empty() ? nullptr : &devices.views.front());
  write_recording(html, after.report, devices);
  html.close();
  return document(
      diff.findings.empty()
          ? before + " and " + std::string(base::file_name(diff.after.path)) + " \u2013 Plimsoll"
          : page_title(after.report, diff.findings),
      html.take());
}

std::unique_ptr<Exporter> make() { return std::make_unique<HtmlExporter>(); }

}  // namespace plimsoll::exporters::html
