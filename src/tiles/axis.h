// Positions on the horizontal axis of a chart: steps, time or events.
//
//   event  the number of the event on its device
//   time   nanoseconds since the device's first event; a running maximum, because the clocks of
//          threads differ slightly
//   step   the step's row in model::step_ends plus the part of it that has passed, by time (by
//          events if times are unknown or do not advance); the events after the last mark fill one
//          more step
//
// All three are monotone, so a span of an axis is a contiguous range of events. The recording is
// [0, end()) on each axis. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/steps.h"
#include "model/trace.h"

namespace plimsoll::tiles {

enum class AxisKind : std::uint8_t { kStep, kTime, kEvent };
const char* to_string(AxisKind kind);  // "step", "time", "event"
std::optional<AxisKind> axis_named(std::string_view name);

class Axis {
 public:
  // Whether the device has steps, or times that advance.
  static bool is_known(const model::Trace& trace, const model::DeviceTrace& device, AxisKind kind);
  // Steps if there are any; else events.
  static AxisKind best(const model::Trace& trace, const model::DeviceTrace& device);

  // `kind` must be known. Keeps references to `trace` and `device`.
  Axis(const model::Trace& trace, const model::DeviceTrace& device, AxisKind kind);

  AxisKind kind() const { return kind_; }
  double end() const { return end_; }
  double position(std::uint32_t event) const;
  // The first event at or after a position; the number of events if there is none.
  std::uint32_t first_event(double position) const;

 private:
  double step_position(std::uint32_t event) const;
  // The latest time of the events up to this one, in nanoseconds; 0 if no times are known.
  std::int64_t latest_ns(std::uint32_t event) const {
    if (!has_times_) return 0;
    return latest_ns_.empty() ? device_.events.time_ns[event] : latest_ns_[event];
  }

  const model::DeviceTrace& device_;
  AxisKind kind_;
  double end_ = 0;
  std::vector<model::StepEnd> ends_;     // kStep
  std::vector<std::int64_t> latest_ns_;  // kTime and kStep: running maximum; empty: as recorded
  bool has_times_ = false;               // kTime and kStep
};

}  // namespace plimsoll::tiles
