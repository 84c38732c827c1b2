// Exporter: one output format. It only formats the data of the trace and the report; all
// computation happens in passes.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "model/trace.h"
#include "model/user_line.h"
#include "plimsoll/result.h"
#include "report/report.h"

namespace plimsoll::exporters {

// Receives the output. If write() fails (full disk, closed pipe), the exporter returns its error.
class Output {
 public:
  virtual ~Output() = default;
  virtual Status write(std::string_view bytes) = 0;
};

struct ExportInput {
  const model::Trace& trace;
  const report::Report& report;
  const model::UserLines& lines;
  std::string_view device = {};  // exports only this device, as in Question::device; empty: all
  // Returns the source text of a line as tables show it, empty if unknown; null: never shown.
  std::function<std::string(const std::string& line)> source_of = nullptr;
};

// HTML pages open at the point that the verdict is about: the failure that ended the program, if
// there was one.
inline constexpr const char* kPointOfPages = "failure-or-peak";

class Exporter {
 public:
  virtual ~Exporter() = default;
  virtual const char* name() const = 0;         // as in `plimsoll export --to NAME`
  virtual const char* description() const = 0;  // one line for the help
  virtual const char* suffix() const = 0;       // ".speedscope.json"
  // The analyses whose results the exporter writes; empty: all.
  virtual std::span<const char* const> needs() const { return {}; }
  // Whether the format shows allocations, which a text with an out-of-memory message does not have.
  virtual bool shows_allocations() const { return true; }
  // The point in time that is exported unless the user chooses one, as in Question::at.
  virtual const char* default_point() const { return "peak"; }
  virtual Status write(const ExportInput& input, Output& output) const = 0;
};

}  // namespace plimsoll::exporters
