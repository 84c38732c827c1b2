#include "exporters/terminal/diff.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/units.h"
#include "text/layout.h"
#include "text/table.h"

namespace plimsoll::exporters::terminal {
namespace {

constexpr std::size_t kWidestDiffProse = 100;

std::string difference_text(std::int64_t bytes) {
  if (bytes == 0) return "0 B";
  return (bytes > 0 ? "+" : "") + base::bytes_text(bytes);
}

std::string points_table(const comparison::Diff& diff, const TextOptions& options) {
  using Align = text::TextTable::Align;
  text::TextTable table({{"before", Align::kNumber},
                         {"after", Align::kNumber},
                         {"difference", Align::kNumber},
                         {"point", Align::kWords}});
  for (const comparison::DiffPoint& point : diff.points) {
    table.add_row({base::bytes_text(point.before_bytes), base::bytes_text(point.after_bytes),
                   difference_text(point.difference_bytes),
                   text::printable(point.name + " on " + point.device)});
    if (!point.unused) continue;
    table.add_row({base::bytes_text(point.unused->before_bytes),
                   base::bytes_text(point.unused->after_bytes),
                   difference_text(point.unused->difference_bytes),
                   "not used again at the " + text::printable(point.name + " on " + point.device) +
                       (point.unused->is_sampled ? ", as far as observed" : "")});
  }
  return table.to_text(options.width, options.color);
}

}  // namespace

std::string to_text(const comparison::Diff& diff, const TextOptions& options) {
  TextOptions prose = options;
  prose.width = std::clamp(options.width, kNarrowestReport, kWidestDiffProse);
  std::string out = findings_text(diff.findings, prose);
  const bool is_equal = std::ranges::all_of(diff.findings, [](const Finding& finding) {
    return finding.id == comparison::kRecordingIncomplete;
  });
  if (is_equal) {
    out += (out.empty() ? "" : "\n") + text::styled("No difference above 0.1% at any point.",
                                                    text::Style::kGood, options.color);
    out += "\n";
  }
  out += "\n" + points_table(diff, prose);
  if (!diff.notes.empty()) {
    out += "\n" + text::styled("About the comparison", text::Style::kBold, options.color) + "\n";
  }
  for (const std::string& note : diff.notes) {
    out += "  - " + text::wrap(text::printable(note), 4, prose.width) + "\n";
  }
  const std::string footer = "before " + text::printable(diff.before.path) + "\nafter  " +
                             text::printable(diff.after.path);
  return out + "\n" + text::styled(footer, text::Style::kDim, options.color) + "\n";
}

}  // namespace plimsoll::exporters::terminal
