#include "exporters/terminal/report.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "exporters/terminal/devices.h"
#include "exporters/terminal/point_text.h"
#include "exporters/terminal/words.h"
#include "report/devices.h"
#include "text/layout.h"

namespace plimsoll::exporters::terminal {
namespace {

constexpr std::size_t kNearMissesNamed = 2;
constexpr std::size_t kWidestProse = 100;  // longer lines are hard to read

// A mark in the margin with a sentence wrapped next to it.
std::string marked(std::string_view mark, text::Style mark_style, std::string_view text,
                   text::Style style, const TextOptions& options) {
  const std::size_t indent = text::display_width(mark) + 1;
  std::string out = text::styled(mark, mark_style, options.color) + " ";
  std::string lines = text::wrap(text, indent, options.width);
  return out + text::styled(lines, style, options.color) + "\n";
}

std::string finding_text(const report::Finding& finding, const TextOptions& options) {
  const text::Style style = severity_style(finding);
  std::string out = marked(severity_mark(finding), style, text::printable(finding.title),
                           text::Style::kBold, options);
  for (const std::string& line : finding.evidence) {
    out += marked("  -", text::Style::kDim, text::printable(line), text::Style::kPlain, options);
  }
  const std::string step = step_text(finding);
  return step.empty() ? out : out + marked("  \u2192", style, step, text::Style::kPlain, options);
}

const report::DeviceReport* fullest(const report::Report& report, const TextOptions& options) {
  const report::DeviceReport* best = nullptr;
  for (const report::DeviceReport& device : report.devices) {
    if (!is_asked_for(device, options.device) || !report::has_content(device)) continue;
    if (best == nullptr || device.held().peak_bytes > best->held().peak_bytes) {
      best = &device;
    }
  }
  return best;
}

bool is_whole(const report::Report& report) {
  return std::ranges::all_of(report.source.diagnostics,
                             [](const auto& each) { return each.severity == "info"; });
}

// A category as it is named in a sentence.
std::string plural_of(const std::string& category) {
  if (category == "optimizer_state") return "optimizer state";
  if (category == "activation_gradient") return "gradients of activations";
  if (category == "workspace") return "library workspaces";
  if (category == "optimizer_scratch") return "scratch memory of the optimizer";
  if (category == "other" || category == "unknown" || category == "communication") return category;
  const bool is_word = std::ranges::all_of(category, [](char c) { return c >= 'a' && c <= 'z'; });
  return is_word ? category + (category == "temporary" ? " memory" : "s")
                 : text::printable(category);
}

// "activations 26.2 GiB, optimizer state 25.4 GiB": the three largest known kinds that have at
// least a twentieth of the peak. Empty if categories are unknown, or if the tables describe another
// point in time.
std::string holders_text(const report::Report& report, const report::DeviceReport& device) {
  const std::vector<const report::PointInTime*> points = rows_of(report.tables.points, device);
  if (points.empty() || points.front()->name != "peak") return {};
  std::string text;
  std::size_t named = 0;
  for (const report::GroupRow* row : rows_of(report.tables.by_category, device)) {
    if (named == 3 || row->bytes < points.front()->live_bytes / 20) break;
    text += (named++ == 0 ? "" : ", ") + plural_of(row->key) + " " + bytes_text(row->bytes);
  }
  return text;
}

// " Closest to a finding: activations are 31.9% of the peak (a finding from 50.0%)."; the two
// closest.
std::string near_text(const report::Report& report, const report::DeviceReport& device) {
  std::string text;
  std::size_t named = 0;
  for (const report::NearMiss& near : report.near_misses) {
    if (near.device != device.device || named == kNearMissesNamed) continue;
    text += (named++ == 0 ? " Closest to a finding: " : "; ") + text::printable(near.text);
  }
  return text.empty() ? text : text + ".";
}

std::string verdict_text(const report::Report& report, const TextOptions& options) {
  if (report.findings.empty()) {
    return text::styled(text::wrap(calm_text(report, options), 0, options.width),
                        text::Style::kGood, options.color) +
           "\n";
  }
  return findings_text(report.findings, options);
}

// For a device without a section.
std::string small_text(const report::DeviceReport& device) {
  const std::string name = device_name(device);
  return name + ": peak " + base::format_bytes(device.held().peak_bytes) + ", end " +
         base::format_bytes(device.held().end_bytes) +
         ", small next to the GPU's. Its tables: --device " + name + ".";
}

std::string devices_text(const report::Report& report, const TextOptions& options) {
  const std::vector<TableKind> tables =
      options.tables.empty() ? natural_tables(report) : options.tables;
  std::string out;
  std::string small_ones;
  std::string empty_ones;
  for (const report::DeviceReport& device : report.devices) {
    if (!is_asked_for(device, options.device)) continue;
    if (!report::has_content(device)) {
      empty_ones += (empty_ones.empty() ? "" : ", ") + device_name(device);
      continue;
    }
    if (!has_section(report, device, options.device)) {
      small_ones += "\n" + text::wrap(small_text(device), 2, options.width) + "\n";
      continue;
    }
    const std::string chart = options.chart_of ? options.chart_of(device) : std::string();
    if (!chart.empty()) out += "\n" + chart;
    out += "\n" + device_text(device, options.width, options.color);
    auto heading = Heading::kSentence;
    for (const TableKind kind : tables) {
      const std::string table =
          table_text(report, device, kind, heading,
                     {options.top, options.width, options.color, options.source_of});
      if (table.empty()) continue;
      out += "\n" + table;
      if (is_about_point(kind)) heading = Heading::kShort;
    }
  }
  out += small_ones;
  if (!empty_ones.empty()) {
    out += "\n" +
           text::wrap(empty_ones + ": nothing recorded, nothing reserved.", 2, options.width) +
           "\n";
  }
  return out;
}

std::string diagnostics_text(const report::Report& report, const TextOptions& options) {
  std::string out;
  const bool has_evicted = std::ranges::any_of(
      report.source.diagnostics, [](const auto& each) { return each.name == "evicted_events"; });
  for (const report::DiagnosticReport& each : report.source.diagnostics) {
    // evicted_events is more specific
    if (has_evicted && each.name == "history_truncated") continue;
    if (out.empty())
      out = "\n" + text::styled("About the input", text::Style::kBold, options.color) + "\n";
    const bool is_severe = each.severity != "info";
    const std::string text =
        base::format_count(each.count) + " \u00d7 " + text::printable(each.name) + ": " +
        text::printable(each.help) +
        (is_severe && !each.example.empty() ? " (" + text::printable(each.example) + ")" : "");
    out += marked("  -", is_severe ? text::Style::kWarning : text::Style::kDim, text,
                  text::Style::kPlain, options);
  }
  return out;
}

// The CPU has no segments, so its fragmentation is omitted.
bool is_of_no_interest(const report::PassRun& pass, const report::Report& report) {
  const bool is_cpu_only =
      !report.devices.empty() &&
      std::ranges::all_of(report.devices, [](const report::DeviceReport& device) {
        return device.device_type == "cpu";
      });
  return pass.name == "fragmentation" && is_cpu_only;
}

// Skipped passes, and what others could not answer; those with the same reason share a line.
std::string unanswered_text(const report::Report& report, const TextOptions& options) {
  std::vector<std::pair<std::string, std::string>> by_reason;
  for (const report::PassRun& pass : report.passes) {
    if (is_of_no_interest(pass, report)) continue;
    const bool is_answered = pass.state == report::PassState::kRan && pass.reason.empty();
    if (is_answered || pass.state == report::PassState::kDisabled) continue;
    const std::string reason =
        text::printable(pass.reason.empty() ? to_string(pass.state) : pass.reason);
    const auto same = std::ranges::find(by_reason, reason, &decltype(by_reason)::value_type::first);
    if (same == by_reason.end()) {
      by_reason.emplace_back(reason, pass.name);
    } else {
      same->second += ", " + pass.name;
    }
  }
  std::string out;
  for (const auto& [reason, names] : by_reason) {
    if (out.empty())
      out = "\n" + text::styled("Not answered", text::Style::kBold, options.color) + "\n";
    out += marked("  -", text::Style::kDim, names + ": " + reason, text::Style::kPlain, options);
  }
  return out;
}

// "train.py --lr 0.1 \u00b7 torch 2.13.0 \u00b7 host \u00b7 2026-11-23 08:03:24 UTC": the file's
// description of the program; empty without one.
std::string program_text(const report::Source& source, std::size_t width) {
  std::string facts;
  const auto add = [&](const std::string& fact) {
    if (!fact.empty()) facts += (facts.empty() ? "" : " \u00b7 ") + text::printable(fact);
  };
  if (!source.torch.empty()) add("torch " + source.torch);
  add(source.host);
  if (source.started_ns) add(base::format_utc(*source.started_ns));
  if (source.command.empty()) return facts;
  const std::string command = text::printable(source.command);
  if (facts.empty()) return text::shorten_end(command, width);
  const bool fits = text::display_width(command) + 3 + text::display_width(facts) <= width;
  return text::shorten_end(command, width) + (fits ? " \u00b7 " : "\n") + facts;
}

// One line, or two if the path would have to be shortened; and what was recorded.
std::string footer_text(const report::Report& report, const TextOptions& options) {
  const report::Source& source = report.source;
  const std::string path = text::shorten_place(text::printable(source.path), options.width);
  std::string facts = text::printable(source.format) + " \u00b7 " + bytes_text(source.bytes) +
                      " \u00b7 " + base::format_count(source.events) +
                      (source.events == 1 ? " event" : " events");
  if (options.elapsed_ns) {
    facts += " \u00b7 took " + base::format_duration(*options.elapsed_ns);
  }
  const bool fits = text::display_width(path) + 3 + text::display_width(facts) <= options.width;
  std::string text = path + (fits ? " \u00b7 " : "\n") + facts;
  const std::string program = program_text(source, options.width);
  if (!program.empty()) text += "\n" + program;
  return "\n" + text::styled(text, text::Style::kDim, options.color) + "\n";
}

}  // namespace

text::Style severity_style(const report::Finding& finding) {
  switch (finding.severity) {
    case report::FindingSeverity::kInfo:
      return text::Style::kInfo;
    case report::FindingSeverity::kWarning:
      return text::Style::kWarning;
    case report::FindingSeverity::kCritical:
      return text::Style::kCritical;
  }
  return text::Style::kPlain;
}

std::string severity_mark(const report::Finding& finding) {
  std::string text = to_string(finding.severity);
  for (char& letter : text) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return text;
}

std::string step_text(const report::Finding& finding) {
  if (finding.next_step.empty()) return {};
  std::string step = text::printable(finding.next_step);
  const std::string saving = bytes_text(finding.saving_bytes);
  if (finding.saving_bytes > 0 && step.find(saving) == std::string::npos) {
    step += " Saves up to " + saving + ".";
  }
  return step;
}

std::string calm_text(const report::Report& report, const TextOptions& options) {
  const report::DeviceReport* device = fullest(report, options);
  if (device == nullptr) return "This file has no memory events and no memory.";
  const auto judged = std::ranges::find(report.passes, "findings", &report::PassRun::name);
  const bool is_judged = judged != report.passes.end() && judged->state == report::PassState::kRan;
  std::string text = !is_judged         ? "No findings were requested."
                     : is_whole(report) ? "Nothing wrong found."
                                        : "Nothing wrong found in the part that was recorded "
                                          "(see About the input).";
  if (disagreement_bytes(*device) > 0) {
    return text + " But events and segments disagree, so the peak is unknown.";
  }
  text += " Peak " + base::format_bytes(device->held().peak_bytes) +
          (device->allocated ? " allocated" : " requested");
  if (report.devices.size() > 1) text += " on " + device_name(*device);
  if (device->held().peak_event) {
    text += " at " + point_text(*device, device->held().peak_event, device->held().peak_time_ns);
  }
  const std::string holders = holders_text(report, *device);
  text += holders.empty() ? "." : ": " + holders + ".";
  return text + near_text(report, *device);
}

std::string findings_text(const std::vector<report::Finding>& findings,
                          const TextOptions& options) {
  std::string out;
  for (const report::Finding& finding : findings) {
    if (!out.empty()) out += "\n";
    out += finding_text(finding, options);
  }
  return out;
}

std::string to_text(const report::Report& report, const TextOptions& options) {
  TextOptions fitted = options;
  fitted.width = std::max(options.width, kNarrowestReport);
  TextOptions prose = fitted;
  prose.width = std::min(fitted.width, kWidestProse);
  return verdict_text(report, prose) + devices_text(report, fitted) +
         diagnostics_text(report, prose) + unanswered_text(report, prose) +
         footer_text(report, fitted);
}

}  // namespace plimsoll::exporters::terminal
