// A Report as a person reads it in a terminal: the verdicts first, then what each device held, what
// filled it, what is imperfect in the input, and a line on the file itself. A pure function: the
// same report and options give the same text. No line is wider than `width` (60 at least).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/report.h"
#include "report/text_style.h"
#include "report/text_tables.h"

namespace plimsoll::report {

struct TextOptions {
  std::size_t width = 100;
  Color color = Color::kOff;
  std::vector<TableKind> tables;           // none: natural_tables()
  std::size_t top = 10;                    // rows of each table
  std::string device;                      // only this one, as in OpenOptions; empty: all
  std::optional<std::int64_t> elapsed_ns;  // how long it took; none: not shown
};

std::string to_text(const Report& report, const TextOptions& options);

// Findings alone, an empty line between them.
std::string findings_text(const std::vector<Finding>& findings, const TextOptions& options);

}  // namespace plimsoll::report
