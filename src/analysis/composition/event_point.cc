#include "analysis/composition/event_point.h"

#include <algorithm>
#include <utility>

#include "model/event_signs.h"
#include "model/live_set.h"
#include "model/steps.h"
#include "report/devices.h"

namespace plimsoll::analysis::composition {
namespace {

using model::DeviceTrace;
using model::kBeforeFirst;
using model::kNoTime;
using model::Trace;
using Found = std::optional<EventPoint>;

struct TimeRange {
  std::int64_t first_ns = 0;
  std::int64_t last_ns = 0;
};

std::int64_t last_event(const DeviceTrace& device) {
  return static_cast<std::int64_t>(device.events.size()) - 1;
}

// The event of the peak. If the file contradicts itself, the end, because only the final segments
// are reliable.
EventPoint peak_of(const DeviceTrace& device, const report::DeviceReport& totals) {
  if (totals.has_unknown_peak() && device.has_final_state) {
    return EventPoint{"end", last_event(device), true};
  }
  const auto& event = totals.live_totals().peak_event;
  return EventPoint{"peak", event ? static_cast<std::int64_t>(*event) : kBeforeFirst};
}

std::vector<std::int64_t> ooms_of(const DeviceTrace& device) {
  std::vector<std::int64_t> events;
  const auto actions = device.events.action.span();
  for (std::size_t event = 0; event < actions.size(); ++event) {
    if (actions[event] == model::Action::kOom) events.push_back(static_cast<std::int64_t>(event));
  }
  return events;
}

// The nth out-of-memory event, or the last one: if any failure ended the program, it was the last;
// earlier ones were caught.
Found nth_oom(const DeviceTrace& device, std::uint64_t nth) {
  const std::vector<std::int64_t> events = ooms_of(device);
  if (nth == 0) nth = events.size();
  if (nth == 0 || nth > events.size()) return std::nullopt;
  return EventPoint{events.size() == 1 ? "oom" : "oom:" + std::to_string(nth), events[nth - 1]};
}

Found failure_or_peak(const DeviceTrace& device, const report::DeviceReport& totals) {
  Found failure = nth_oom(device, 0);
  const bool has_ended =
      failure && !report::went_on_after(totals, static_cast<std::uint64_t>(failure->event));
  return has_ended ? failure : peak_of(device, totals);
}

// The peak within a step; of equal totals the first.
Found peak_of_step(const Trace& trace, const DeviceTrace& device, std::uint64_t step) {
  const std::vector<model::StepEnd> ends = model::step_ends(trace, device);
  const auto end = std::ranges::find(ends, step, &model::StepEnd::step);
  if (end == ends.end()) return std::nullopt;
  const std::uint32_t first = end == ends.begin() ? 0 : std::prev(end)->event;
  EventPoint peak{"step:" + std::to_string(step), static_cast<std::int64_t>(first) - 1};
  std::uint64_t total = 0;  // since the step began, modulo 2^64
  std::int64_t most = 0;
  for (std::uint32_t event = first; event < end->event; ++event) {
    const model::Signs& signs =
        model::kSigns[static_cast<std::size_t>(device.events.action[event])];
    total += signs.allocated * device.events.size_bytes[event];
    if (static_cast<std::int64_t>(total) <= most) continue;
    most = static_cast<std::int64_t>(total);
    peak.event = event;
  }
  return peak;
}

// The time span of the requested devices.
std::optional<TimeRange> time_range(const PassContext& context) {
  std::optional<TimeRange> range;
  for (std::size_t d = 0; d < context.trace.devices.size(); ++d) {
    const auto& wanted = context.options.device;
    const report::DeviceReport& totals = context.report.devices[d];
    if (wanted && context.trace.devices[d].device != *wanted) continue;
    if (!totals.first_time_ns) continue;
    if (!range) range = TimeRange{*totals.first_time_ns, *totals.last_time_ns};
    range->first_ns = std::min(range->first_ns, *totals.first_time_ns);
    range->last_ns = std::max(range->last_ns, *totals.last_time_ns);
  }
  return range;
}

// The last event at or before that time.
EventPoint at_time(const DeviceTrace& device, std::int64_t time_ns) {
  const auto times = device.events.time_ns.span();
  std::int64_t event = last_event(device);
  const auto is_later = [&](std::int64_t e) {
    const std::int64_t time = times[static_cast<std::size_t>(e)];
    return time == kNoTime || time > time_ns;
  };
  while (event >= 0 && is_later(event)) --event;
  return {"time " + std::to_string(time_ns) + " ns", event};
}

// Formats a time with all digits, so that the limit in a message is an accepted value: "2.0305 s".
std::string in_unit(std::int64_t time_ns, std::int64_t unit_ns) {
  std::string text = std::to_string(time_ns / unit_ns);
  std::string fraction = std::to_string(unit_ns + time_ns % unit_ns).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  if (!fraction.empty()) text += "." + fraction;
  return text + (unit_ns == 1'000'000'000 ? " s"
                 : unit_ns == 1'000'000   ? " ms"
                 : unit_ns == 1'000       ? " us"
                                          : " ns");
}

Error time_outside(const TimePoint& point, const TimeRange& range) {
  const auto shown = [&](std::int64_t time_ns) { return in_unit(time_ns, point.unit_ns); };
  const std::string limits =
      point.is_relative
          ? "its last event is " + shown(range.last_ns - range.first_ns) + " after the first one"
          : "valid are " + shown(range.first_ns) + " to " + shown(range.last_ns);
  return make_error(ErrorCode::kInvalidArgument,
                    "time " + shown(point.time_ns) + " is outside the recording: " + limits);
}

Result<std::int64_t> absolute_time(const TimePoint& point, const std::optional<TimeRange>& range) {
  if (!range) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "the events of this file have no times: choose the point in time by event number");
  }
  const std::int64_t span_ns = range->last_ns - range->first_ns;
  const bool is_in_range =
      point.is_relative ? point.time_ns >= 0 && point.time_ns <= span_ns
                        : point.time_ns >= range->first_ns && point.time_ns <= range->last_ns;
  if (!is_in_range) return time_outside(point, *range);
  return point.is_relative ? range->first_ns + point.time_ns : point.time_ns;
}

Error no_such_point(const PassContext& context) {
  const TimePoint& point = context.options.point;
  std::size_t most_ooms = 0;
  for (const DeviceTrace& device : context.trace.devices) {
    if (context.options.device && device.device != *context.options.device) continue;
    most_ooms = std::max(most_ooms, ooms_of(device).size());
  }
  if (point.kind == TimePoint::Kind::kOom && most_ooms > 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "oom:" + std::to_string(point.nth) + " is not in this recording: " +
                          (most_ooms == 1 ? "one allocation failed in it, oom:1"
                                          : "allocations failed in it oom:1 to oom:" +
                                                std::to_string(most_ooms)));
  }
  if (point.kind == TimePoint::Kind::kOom) {
    return make_error(ErrorCode::kInvalidArgument,
                      "no allocation failed in this recording, so there is no out-of-memory event");
  }
  if (point.kind == TimePoint::Kind::kStep) {
    std::vector<model::StepEnd> ends;
    for (const DeviceTrace& device : context.trace.devices) {
      if (ends.empty()) ends = model::step_ends(context.trace, device);
    }
    return make_error(ErrorCode::kInvalidArgument,
                      "step:" + std::to_string(point.nth) + " is not in this recording: " +
                          (ends.empty() ? "no steps are marked in it"
                                        : "its steps are " + std::to_string(ends.front().step) +
                                              " to " + std::to_string(ends.back().step)));
  }
  const DeviceTrace* longest = nullptr;
  for (const DeviceTrace& device : context.trace.devices) {
    if (context.options.device && device.device != *context.options.device) continue;
    if (longest == nullptr || device.events.size() > longest->events.size()) longest = &device;
  }
  if (longest == nullptr || longest->events.size() == 0) {
    std::string others;
    for (const DeviceTrace& device : context.trace.devices) {
      if (device.events.size() == 0) continue;
      others += (others.empty() ? "; those with events are " : ", ") + to_string(device.device);
    }
    return make_error(ErrorCode::kInvalidArgument,
                      (others.empty() ? "this file" : to_string(longest->device)) +
                          " has no events to choose a point in time from, only the final state" +
                          others);
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "event " + std::to_string(point.event) +
                        " is outside the recording: " + to_string(longest->device) +
                        " has events 0 to " + std::to_string(longest->events.size() - 1));
}

Status check_device(const PassContext& context) {
  const auto& wanted = context.options.device;
  const auto& devices = context.trace.devices;
  const auto is_wanted = [&](const DeviceTrace& device) { return device.device == *wanted; };
  if (!wanted || std::ranges::any_of(devices, is_wanted)) return {};
  std::string names;
  for (const DeviceTrace& device : devices) {
    names += (names.empty() ? "" : ", ") + to_string(device.device);
  }
  return make_error(ErrorCode::kInvalidArgument, "this file has no device " + to_string(*wanted) +
                                                     "; it has " +
                                                     (names.empty() ? "none" : names));
}

Found find_on(const PassContext& context, std::size_t d, std::int64_t time_ns) {
  const TimePoint& point = context.options.point;
  const DeviceTrace& device = context.trace.devices[d];
  switch (point.kind) {
    case TimePoint::Kind::kPeak:
      return peak_of(device, context.report.devices[d]);
    case TimePoint::Kind::kStart:
      return EventPoint{"start", model::start_of_recording(device)};
    case TimePoint::Kind::kEnd:
      return EventPoint{"end", last_event(device)};
    case TimePoint::Kind::kOom:
      return nth_oom(device, point.nth);
    case TimePoint::Kind::kStep:
      return peak_of_step(context.trace, device, point.nth);
    case TimePoint::Kind::kFailureOrPeak:
      return failure_or_peak(device, context.report.devices[d]);
    case TimePoint::Kind::kEvent:
      if (point.event >= device.events.size()) return std::nullopt;
      return EventPoint{"event " + std::to_string(point.event),
                        static_cast<std::int64_t>(point.event)};
    case TimePoint::Kind::kTime:
      return at_time(device, time_ns);
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<Found>> find_points(const PassContext& context) {
  PLIMSOLL_TRY(check_device(context));
  const TimePoint& point = context.options.point;
  std::int64_t time_ns = 0;
  if (point.kind == TimePoint::Kind::kTime) {
    PLIMSOLL_TRY_ASSIGN(time_ns, absolute_time(point, time_range(context)));
  }
  std::vector<Found> found;
  for (std::size_t d = 0; d < context.trace.devices.size(); ++d) {
    const bool is_wanted =
        !context.options.device || context.trace.devices[d].device == *context.options.device;
    found.push_back(is_wanted ? find_on(context, d, time_ns) : std::nullopt);
  }
  const bool may_be_absent = point.kind == TimePoint::Kind::kOom ||
                             point.kind == TimePoint::Kind::kStep ||
                             point.kind == TimePoint::Kind::kEvent;
  if (may_be_absent && std::ranges::none_of(found, &Found::has_value)) {
    return no_such_point(context);
  }
  return found;
}

}  // namespace plimsoll::analysis::composition
