// A Report as a person reads it in a terminal: the verdicts first, then what each device held, what
// filled it, what is imperfect in the input, and a line on the file itself. A pure function: the
// same report and options give the same text. No line is wider than `width` (60 at least).
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
  std::vector<TableKind> tables;           // none: natural_tables()
  std::size_t top = 10;                    // rows of each table
  std::string device;                      // only this one, as in OpenOptions; empty: all
  std::optional<std::int64_t> elapsed_ns;  // how long it took; none: not shown
  // As in TableOptions. The text depends on what it returns, too.
  std::function<std::string(const std::string& line)> source_of = nullptr;
};

std::string to_text(const report::Report& report, const TextOptions& options);

// The one sentence for a report without findings.
std::string calm_text(const report::Report& report, const TextOptions& options);

// Of a finding: its colour, its severity in capitals, and what to do, with the bytes that it saves;
// empty where there is nothing to do.
text::Style severity_style(const report::Finding& finding);
std::string severity_mark(const report::Finding& finding);
std::string step_text(const report::Finding& finding);

// Findings alone, an empty line between them.
std::string findings_text(const std::vector<report::Finding>& findings, const TextOptions& options);

}  // namespace plimsoll::exporters::terminal
