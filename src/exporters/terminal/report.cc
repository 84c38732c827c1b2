#include "exporters/terminal/report.h"

#include <algorithm>
#include <string_view>

#include "base/units.h"
#include "exporters/labels.h"
#include "exporters/terminal/devices.h"
#include "exporters/verdict.h"
#include "report/devices.h"
#include "text/layout.h"

namespace plimsoll::exporters::terminal {
namespace {

constexpr std::size_t kWidestProse = 100;  // longer lines are hard to read
constexpr std::size_t kMostSteps = 5;      // of a finding

// A mark in the margin with a sentence wrapped next to it.
std::string marked(std::string_view mark, text::Style mark_style, std::string_view text,
                   text::Style style, const TextOptions& options) {
  const std::size_t indent = text::display_width(mark) + 1;
  std::string out = text::styled(mark, mark_style, options.color) + " ";
  std::string lines = text::wrap(text, indent, options.width);
  return out + text::styled(lines, style, options.color) + "\n";
}

std::string title_text(const report::Finding& finding, const TextOptions& options) {
  return marked(severity_mark(finding), severity_style(finding), text::printable(finding.title),
                text::Style::kBold, options);
}

std::string finding_text(const report::Finding& finding, const TextOptions& options) {
  const text::Style style = severity_style(finding);
  std::string out = title_text(finding, options);
  for (const std::string& line : finding.evidence) {
    out += marked("  -", text::Style::kDim, text::printable(line), text::Style::kPlain, options);
  }
  std::vector<std::string> steps = step_texts(finding);
  steps.resize(std::min(steps.size(), kMostSteps));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    out += i == 0 ? marked("  \u2192", style, steps[i], text::Style::kPlain, options)
                  : marked("    or:", text::Style::kDim, steps[i], text::Style::kPlain, options);
  }
  return out;
}

std::string verdict_text(const report::Report& report, const TextOptions& options) {
  std::string calm;
  if (report.findings.empty() || is_healthy(report, options.device)) {
    calm = text::styled(text::wrap(no_findings(report, options.device).text(), 0, options.width),
                        text::Style::kGood, options.color) +
           "\n";
  }
  if (report.findings.empty()) return calm;
  if (options.has_titles_only) {
    for (const report::Finding& finding : report.findings) {
      calm += title_text(finding, options);
    }
    return calm;
  }
  return calm + (calm.empty() ? "" : "\n") + findings_text(report.findings, options);
}

std::string last_uses_text(const report::Report& report, const TextOptions& options) {
  std::string out;
  for (const std::string& text : last_use_texts(report, options.device)) {
    out += text::wrap(text, 0, options.width) + "\n";
  }
  // Below a finding it would read as a part of its next step.
  return out.empty() || report.findings.empty() ? out : "\n" + out;
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
  for (const InputNote& note : notes_on_input(report)) {
    if (out.empty())
      out = "\n" + text::styled("About the input", text::Style::kBold, options.color) + "\n";
    out += marked("  -", note.is_severe ? text::Style::kWarning : text::Style::kDim, note.text,
                  text::Style::kPlain, options);
  }
  return out;
}

std::string unanswered_text(const report::Report& report, const TextOptions& options) {
  std::string out;
  for (const Unanswered& each : unanswered(report)) {
    if (out.empty())
      out = "\n" + text::styled("Not answered", text::Style::kBold, options.color) + "\n";
    out += marked("  -", text::Style::kDim, each.names + ": " + each.reason, text::Style::kPlain,
                  options);
  }
  return out;
}

// "train.py --lr 0.1 \u00b7 torch 2.13.0 \u00b7 host \u00b7 2026-11-23 08:03:24 UTC": the file's
// description of the program; empty without one.
std::string program_text(const report::Source& source, std::size_t width) {
  std::string facts;
  for (const std::string& fact : program_facts(source)) {
    facts += (facts.empty() ? "" : " \u00b7 ") + fact;
  }
  if (source.command.empty()) return facts;
  const std::string command = text::printable(source.command);
  if (facts.empty()) return text::shorten_end(command, width);
  const bool fits = text::display_width(command) + 3 + text::display_width(facts) <= width;
  return text::shorten_end(command, width) + (fits ? " \u00b7 " : "\n") + facts;
}

// The path of the file and what it contains, on one line or on two; then the program, if known.
std::string footer_text(const report::Report& report, const TextOptions& options) {
  const report::Source& source = report.source;
  const std::string path = text::shorten_place(text::printable(source.path), options.width);
  std::string facts = text::printable(source.format);
  if (source.bytes > 0) facts += " \u00b7 " + bytes_text(source.bytes);
  facts += " \u00b7 " + base::counted(source.events, "event");
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
  return verdict_text(report, prose) +
         (options.has_titles_only ? std::string() : last_uses_text(report, prose)) +
         devices_text(report, fitted) + diagnostics_text(report, prose) +
         unanswered_text(report, prose) + footer_text(report, fitted);
}

}  // namespace plimsoll::exporters::terminal
