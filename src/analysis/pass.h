// Pass: the interface of one analysis of a trace. A pass reads the trace and the parts of the
// report that the passes it depends on have filled, and fills its own part. The runner
// (pass_runner.h) handles timing, order, interruption and skipping.
#pragma once

#include <bit>
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

// The point in time that the composition tables describe.
struct TimePoint {
  // kFailureOrPeak: on each device, the failure that ended the program, else the peak.
  // kStep: the peak within a step.
  enum class Kind : std::uint8_t {
    kPeak,
    kStart,
    kEnd,
    kOom,
    kFailureOrPeak,
    kStep,
    kEvent,
    kTime
  };
  Kind kind = Kind::kPeak;
  std::uint64_t event = 0;   // kEvent: number within the device
  std::uint64_t nth = 0;     // kOom: the device's nth failed request, from 1; 0: the last one.
                             // kStep: the number of the step
  std::int64_t time_ns = 0;  // kTime: as in the file, or since the first event if is_relative
  bool is_relative = false;
  std::int64_t unit_ns = 1;  // kTime: the unit it was given in, for error messages

  friend bool operator==(const TimePoint&, const TimePoint&) = default;
};

struct Options {
  std::optional<model::Device> device;  // only this one; empty: all
  TimePoint point;
  std::size_t top = 20;  // rows kept in each table

  friend bool operator==(const Options&, const Options&) = default;
};

// A set of options.
class OptionSet {
 public:
  static const OptionSet kNone;
  static const OptionSet kDevice;
  static const OptionSet kPoint;
  static const OptionSet kTop;
  static const OptionSet kAll;

  constexpr int count() const { return std::popcount(bits_); }
  friend constexpr OptionSet operator|(OptionSet a, OptionSet b) {
    return OptionSet(a.bits_ | b.bits_);
  }
  friend constexpr bool intersect(OptionSet a, OptionSet b) { return (a.bits_ & b.bits_) != 0; }

 private:
  explicit constexpr OptionSet(unsigned bits) : bits_(bits) {}

  unsigned bits_;
};
inline constexpr OptionSet OptionSet::kNone{0};
inline constexpr OptionSet OptionSet::kDevice{1};
inline constexpr OptionSet OptionSet::kPoint{2};
inline constexpr OptionSet OptionSet::kTop{4};
inline constexpr OptionSet OptionSet::kAll = kDevice | kPoint | kTop;

// The arguments of every pass.
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
  // Passes whose results this one requires: it is skipped if one of them did not run.
  virtual std::span<const char* const> depends_on() const { return {}; }
  // Passes whose results this one uses if available: it only runs after them.
  virtual std::span<const char* const> runs_after() const { return {}; }
  // Options that affect this pass's own result. Those of the passes it uses are added
  // automatically.
  virtual OptionSet uses() const { return OptionSet::kAll; }
  // Whether it runs only for questions that name it, or a pass that builds on it.
  virtual bool is_only_on_request() const { return false; }
  // Empties its part of the report so that it can run again.
  virtual void clear(report::Report& report) const = 0;
  // Empty if the pass can run; else one sentence with the reason ("needs events: this file has
  // none").
  virtual std::string why_not(const model::Trace& trace) const {
    static_cast<void>(trace);
    return {};
  }
  // After a run: what the pass could not answer ("on cpu: no steps are marked"); else empty.
  virtual std::string unanswered(const PassContext& context) const {
    static_cast<void>(context);
    return {};
  }
  virtual Status run(PassContext& context) const = 0;
};

}  // namespace plimsoll::analysis
