// Pass: one question asked of a trace. A pass reads the trace and the parts of the report that the
// passes it depends on have filled, and fills its own part. It owns no timing, order, interruption
// or skipping: the runner does.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/progress.h"
#include "model/trace.h"
#include "model/user_line.h"
#include "plimsoll/result.h"
#include "report/report.h"

namespace plimsoll::analysis {

// The moment the composition tables speak of.
struct Moment {
  enum class Kind : std::uint8_t { kPeak, kStart, kEnd, kOom, kEvent, kTime };
  Kind kind = Kind::kPeak;
  std::uint64_t event = 0;   // kEvent: number within the device
  std::uint64_t nth = 0;     // kOom: of the device's, from 1; 0: the last one
  std::int64_t time_ns = 0;  // kTime: as in the file, or since the first event if is_relative
  bool is_relative = false;
  std::int64_t unit_ns = 1;  // kTime: in which it was given, for error messages
};

struct Options {
  std::optional<model::Device> device;  // only this one; none: all
  Moment moment;
  std::size_t top = 20;  // rows kept of each table
};

// What every pass is given.
struct PassContext {
  const model::Trace& trace;
  const model::UserLines& lines;
  const Options& options;
  base::Progress& progress;
  report::Report& report;
};

class Pass {
 public:
  virtual ~Pass() = default;
  virtual const char* name() const = 0;
  // Passes whose answers it needs: it is skipped where one of them did not run.
  virtual std::span<const char* const> depends_on() const { return {}; }
  // Passes whose answers it uses where there are any: it waits for their turn, no more.
  virtual std::span<const char* const> runs_after() const { return {}; }
  // Empty if it can answer; else one sentence why not ("needs events: this file has none").
  virtual std::string why_not(const model::Trace& trace) const {
    static_cast<void>(trace);
    return {};
  }
  virtual Status run(PassContext& context) const = 0;
};

}  // namespace plimsoll::analysis
