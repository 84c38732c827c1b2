#include "exporters/terminal/brief.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "exporters/labels.h"
#include "exporters/point_text.h"
#include "exporters/verdict.h"
#include "report/devices.h"
#include "text/layout.h"

namespace plimsoll::exporters::terminal {
namespace {

constexpr std::size_t kMostFindings = 3;
constexpr std::size_t kMostDevices = 4;
constexpr std::size_t kTitleLines = 2;
constexpr std::size_t kLongestEvidence = 4;  // lines; longer evidence is left out
constexpr std::size_t kMostBriefSteps = 4;   // of the first finding
constexpr std::size_t kStepLines = 2;        // of all its steps but the first
constexpr std::size_t kMostRows = 4;         // of what fills memory

using Lines = std::vector<std::string>;

// The first `most` lines of a wrapped text; the last of them ends in "…" if there are more.
Lines first_lines(std::string_view text, std::size_t indent, std::size_t width, std::size_t most) {
  const std::string wrapped = text::wrap(text, indent, width);
  Lines lines;
  for (std::size_t begin = 0; begin <= wrapped.size();) {
    const std::size_t end = std::min(wrapped.find('\n', begin), wrapped.size());
    if (lines.size() == most) {
      const std::size_t room = lines.size() == 1 ? width - indent : width;
      std::string& last = lines.back();
      if (text::display_width(last) + 2 > room) last.erase(last.rfind(' '));
      last += " \u2026";
      break;
    }
    lines.push_back(wrapped.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

void add_marked(Lines& out, std::string_view mark, text::Style mark_style, std::string_view text,
                text::Style style, std::size_t most, const TextOptions& options) {
  const Lines lines = first_lines(text, text::display_width(mark) + 1, options.width, most);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string begin = i == 0 ? text::styled(mark, mark_style, options.color) + " " : "";
    out.push_back(begin + text::styled(lines[i], style, options.color));
  }
}

// "  activation 32.1 MiB, optimizer_state 6.3 MiB, and 5 more", as many as fit on a line.
std::string parts_line(const std::vector<const report::GroupRow*>& rows, std::string text,
                       std::size_t width) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string part =
        (i == 0 ? "" : ", ") + text::printable(rows[i]->key) + " " + bytes_text(rows[i]->bytes);
    const std::size_t left = rows.size() - i;
    const std::string rest = ", and " + std::to_string(left) + " more";
    const std::size_t needed = left == 1 ? 0 : text::display_width(rest);
    if (i > 0 && text::display_width(text) + text::display_width(part) + needed > width)
      return text + rest;
    text += part;
  }
  return text::shorten_place(text, width);
}

// What fills memory at the point in time: the categories or, without categories, the largest line.
std::string holders_line(const report::Report& report, const report::DeviceReport& device,
                         std::size_t width) {
  const std::vector<const report::PointInTime*> points = rows_of(report.tables.points, device);
  if (points.empty()) return {};
  const std::string& name = points.front()->name;
  const std::string begin = name == "peak" ? "  " : "  at " + text::printable(name) + ": ";
  const auto categories = rows_of(report.tables.by_category, device);
  if (!categories.empty()) return parts_line(categories, begin, width);
  const auto lines = rows_of(report.tables.by_line, device);
  if (lines.empty()) return {};
  return text::shorten_place(begin + "largest line: " + text::printable(lines.front()->key) + " " +
                                 bytes_text(lines.front()->bytes),
                             width);
}

std::string peak_line(const report::DeviceReport& device, const TextOptions& options) {
  const report::SeriesTotals& totals = device.live_totals();
  std::string text = device.disagreement_bytes() > 0
                         ? "peak unknown, events and segments disagree"
                         : "peak " + base::bytes_text(totals.peak_bytes);
  if (totals.peak_event)
    text += " at " + point_text(device, totals.peak_event, totals.peak_time_ns);
  text += ", end " + base::bytes_text(totals.end_bytes);
  if (!totals.is_known) text = "peak unknown, the message does not state what was allocated";
  const std::string name = device_name(device);
  const std::size_t room = options.width - std::min(options.width, text::display_width(name) + 2);
  return text::styled(name, text::Style::kBold, options.color) + "  " +
         text::shorten_place(text, room);
}

// "  reserved 974.0 MiB; 8.7 GiB of 79.6 GiB used on the device": the figures that nvidia-smi
// shows. Empty for devices without a caching allocator.
std::string reserved_line(const report::DeviceReport& device, std::size_t width) {
  std::string text;
  if (device.reserved.peak_bytes > 0 && device.disagreement_bytes() == 0) {
    text = "reserved " + base::bytes_text(device.reserved.peak_bytes) + " at most";
  }
  if (!device.bars.empty()) {
    const report::DeviceBarReport& bar = device.bars.front();  // when it was fullest
    text += (text.empty() ? "" : "; ") + bytes_text(bar.used_bytes) + " of " +
            bytes_text(bar.total_bytes) + " used on the device, by all processes";
  }
  return text.empty() ? text : text::shorten_place("  " + text, width);
}

Lines device_lines(const report::Report& report, const TextOptions& options) {
  std::vector<const report::DeviceReport*> devices;
  for (const report::DeviceReport& device : report.devices) {
    if (!is_asked_for(device, options.device) || !report::has_content(device)) continue;
    if (has_section(report, device, options.device)) devices.push_back(&device);
  }
  std::ranges::stable_sort(devices,
                           [](const report::DeviceReport* a, const report::DeviceReport* b) {
                             return a->live_totals().peak_bytes > b->live_totals().peak_bytes;
                           });
  const bool is_stated = is_healthy(report, options.device);  // above
  Lines out;
  for (std::size_t i = 0; i < std::min(devices.size(), kMostDevices); ++i) {
    out.push_back(peak_line(*devices[i], options));
    if (auto line = reserved_line(*devices[i], options.width); !line.empty()) {
      out.push_back(std::move(line));
    }
    if (devices[i]->last_use && !is_stated) {
      Lines lines = first_lines(devices[i]->last_use->text, 2, options.width, kLongestEvidence);
      lines.front().insert(0, "  ");
      out.insert(out.end(), lines.begin(), lines.end());
    }
    const std::string holders = holders_line(report, *devices[i], options.width);
    if (!holders.empty()) out.push_back(holders);
  }
  if (devices.size() > kMostDevices) {
    out.push_back("and " + base::counted(devices.size() - kMostDevices, "more device"));
  }
  return out;
}

// The first sentence about the input's first imperfection; the full report explains all.
std::string input_line(const report::Report& report, const TextOptions& options) {
  std::string line;
  std::size_t more = 0;
  for (const report::DiagnosticReport& each : report.source.diagnostics) {
    if (each.severity == "info") continue;
    if (!line.empty()) {
      ++more;
      continue;
    }
    line = text::printable(each.help.substr(0, each.help.find(". ")));
    if (line.ends_with('.')) line.pop_back();
    if (each.count > 1) line += " (" + base::format_count(each.count) + " times)";
  }
  if (line.empty()) return {};
  if (more > 0) line += "; and " + base::format_count(more) + " more";
  return text::styled(text::shorten_end(line, options.width), text::Style::kWarning, options.color);
}

void add_findings(Lines& out, const report::Report& report, std::size_t room,
                  const TextOptions& options) {
  const std::size_t shown = std::min(report.findings.size(), kMostFindings);
  const bool has_more = report.findings.size() > shown;
  Lines others;
  for (std::size_t i = 1; i < shown; ++i) {
    const report::Finding& finding = report.findings[i];
    add_marked(others, severity_mark(finding), severity_style(finding),
               text::printable(finding.title), text::Style::kBold, kTitleLines, options);
  }
  if (has_more) {
    others.push_back("and " + base::counted(report.findings.size() - shown, "more finding"));
  }
  const report::Finding& first = report.findings.front();
  add_marked(out, severity_mark(first), severity_style(first), text::printable(first.title),
             text::Style::kBold, kTitleLines, options);
  Lines step;
  const std::size_t used = out.size() + others.size();
  const std::vector<std::string> steps = step_texts(first);
  if (!steps.empty() && used < room) {
    add_marked(step, "  \u2192", severity_style(first), steps.front(), text::Style::kPlain,
               room - used, options);
  }
  for (const std::string& sentence : first.evidence) {
    const std::size_t taken = out.size() + step.size() + others.size();
    Lines evidence;
    add_marked(evidence, "  -", text::Style::kPlain, text::printable(sentence), text::Style::kPlain,
               kLongestEvidence + 1, options);
    const bool fits = evidence.size() <= kLongestEvidence && taken + evidence.size() <= room;
    if (fits) std::ranges::move(evidence, std::back_inserter(out));
  }
  for (std::size_t i = 1; i < std::min(steps.size(), kMostBriefSteps); ++i) {
    Lines other;
    add_marked(other, "    or:", text::Style::kDim, steps[i], text::Style::kPlain, kStepLines,
               options);
    if (out.size() + step.size() + others.size() + other.size() > room) break;
    std::ranges::move(other, std::back_inserter(step));
  }
  std::ranges::move(step, std::back_inserter(out));
  std::ranges::move(others, std::back_inserter(out));
}

// The largest lines of the first device with a table by line, if there is room for some.
Lines largest_lines(const report::Report& report, std::size_t room, const TextOptions& options) {
  constexpr std::size_t kFewest = 2;
  Lines out;
  if (room < kFewest + 2) return out;  // with an empty line and a heading
  for (const report::DeviceReport& device : report.devices) {
    const auto rows = rows_of(report.tables.by_line, device);
    const auto points = rows_of(report.tables.points, device);
    if (!is_asked_for(device, options.device) || rows.empty() || points.empty()) continue;
    if (rows_of(report.tables.by_category, device).empty()) continue;  // the largest is named above
    out = {"", "Largest lines on " + device_name(device) + " at " +
                   (points.front()->name == "peak" ? "its peak:" : points.front()->name + ":")};
    for (std::size_t i = 0; i < std::min({rows.size(), kMostRows, room - out.size()}); ++i) {
      constexpr std::size_t kBytesWidth = 12;
      out.push_back(text::shorten_place(text::pad_left(bytes_text(rows[i]->bytes), kBytesWidth) +
                                            "  " + text::printable(rows[i]->key),
                                        options.width));
    }
    return out;
  }
  return out;
}

}  // namespace

std::string to_brief_text(const report::Report& report, const TextOptions& options) {
  TextOptions fitted = options;
  fitted.width = std::max(options.width, kNarrowestReport);
  Lines below = device_lines(report, fitted);
  if (!below.empty()) below.insert(below.begin(), "");
  if (const std::string line = input_line(report, fitted); !line.empty()) {
    below.insert(below.end(), {"", line});
  }
  const std::string command =
      "Everything: " +
      (options.full_command.empty() ? "--full" : text::printable(options.full_command));
  const std::size_t wrapped = (text::display_width(command) - 1) / fitted.width;  // extra lines
  const std::size_t last = 2 + wrapped;
  const std::size_t room = kBriefLines - std::min(kBriefLines - 1, below.size() + last);

  Lines lines;
  const bool is_empty = report.findings.empty();
  if (is_empty || is_healthy(report, fitted.device)) {
    const NoFindings calm = no_findings(report, fitted.device);
    for (const std::string& line :
         first_lines(is_empty ? calm.text() : calm.title, 0, fitted.width, room)) {
      lines.push_back(text::styled(line, text::Style::kGood, fitted.color));
    }
  }
  if (!is_empty) add_findings(lines, report, room, fitted);
  std::ranges::move(below, std::back_inserter(lines));
  const std::size_t left = kBriefLines - std::min(kBriefLines, lines.size() + last);
  std::ranges::move(largest_lines(report, left, fitted), std::back_inserter(lines));
  lines.insert(lines.end(), {"", text::styled(command, text::Style::kDim, fitted.color)});
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

}  // namespace plimsoll::exporters::terminal
