// A Report as terminal text: the verdicts first, then each device's memory, what filled it,
// imperfections of the input, and a line about the file. A pure function: the same report and
// options give the same text. No line is wider than `width` (60 at least).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exporters/terminal/tables.h"
#include "report/report.h"
#include "text/style.h"

namespace plimsoll::exporters::terminal {

inline constexpr std::size_t kNarrowestReport = 60;

struct TextOptions {
  std::size_t width = 100;
  text::Color color = text::Color::kOff;
  std::vector<TableKind> tables;           // empty: natural_tables()
  std::size_t top = 10;                    // rows in each table
  bool has_titles_only = false;            // of findings, above tables that were asked for
  std::string device;                      // only this device, as in OpenOptions; empty: all
  std::string full_command;                // that prints everything; only for to_brief_text()
  std::optional<std::int64_t> elapsed_ns;  // duration of the analysis; empty: not shown
  // As in TableOptions. Its result becomes part of the text.
  std::function<std::string(const std::string& line)> source_of = nullptr;
  // A device's memory over time (over_time.h); null: not shown.
  std::function<std::string(const report::DeviceReport& device)> chart_of = nullptr;
};

std::string to_text(const report::Report& report, const TextOptions& options);

text::Style severity_style(const report::Finding& finding);

// Only the findings, separated by empty lines.
std::string findings_text(const std::vector<report::Finding>& findings, const TextOptions& options);

}  // namespace plimsoll::exporters::terminal
