#include "tiles/axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "base/check.h"

namespace plimsoll::tiles {
namespace {

using model::kNoTime;

constexpr std::array kKindNames = {"step", "time", "event"};

std::uint32_t event_count(const model::DeviceTrace& device) {
  return static_cast<std::uint32_t>(device.events.size());
}

// The running maximum of the times; events before the first known time get that time. Empty if the
// times ascend as recorded.
std::vector<std::int64_t> running_maximum(std::span<const std::int64_t> times_ns) {
  std::vector<std::int64_t> latest;
  if (times_ns.front() != kNoTime && std::ranges::is_sorted(times_ns)) return latest;
  latest.reserve(times_ns.size());
  std::int64_t now = *std::ranges::find_if(times_ns, [](auto time) { return time != kNoTime; });
  for (const std::int64_t time : times_ns) latest.push_back(now = std::max(now, time));
  return latest;
}

// `later` must not precede `earlier`. Unsigned, because a hostile file may state any two times.
double nanoseconds(std::int64_t earlier, std::int64_t later) {
  return static_cast<double>(static_cast<std::uint64_t>(later) -
                             static_cast<std::uint64_t>(earlier));
}

double just_above(double value) {
  return std::max(value + 1, std::nextafter(value, std::numeric_limits<double>::infinity()));
}

}  // namespace

const char* to_string(AxisKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::optional<AxisKind> axis_named(std::string_view name) {
  const auto* const found = std::ranges::find(kKindNames, name);
  if (found == kKindNames.end()) return std::nullopt;
  return static_cast<AxisKind>(found - kKindNames.begin());
}

bool Axis::is_known(const model::Trace& trace, const model::DeviceTrace& device, AxisKind kind) {
  if (kind == AxisKind::kEvent) return true;
  if (kind == AxisKind::kStep) return !model::step_ends(trace, device).empty();
  std::int64_t first = kNoTime;
  for (const std::int64_t time : device.events.time_ns.span()) {
    if (first == kNoTime) first = time;
    if (time > first) return true;
  }
  return false;
}

AxisKind Axis::best(const model::Trace& trace, const model::DeviceTrace& device) {
  return is_known(trace, device, AxisKind::kStep) ? AxisKind::kStep : AxisKind::kEvent;
}

Axis::Axis(const model::Trace& trace, const model::DeviceTrace& device, AxisKind kind)
    : device_(device), kind_(kind) {
  PLIMSOLL_CHECK(is_known(trace, device, kind));
  const std::uint32_t count = event_count(device);
  if (kind == AxisKind::kEvent) {
    end_ = count;
    return;
  }
  const auto times_ns = device.events.time_ns.span();
  has_times_ = std::ranges::any_of(times_ns, [](auto time) { return time != kNoTime; });
  if (has_times_) latest_ns_ = running_maximum(times_ns);
  if (kind == AxisKind::kTime) {
    end_ = just_above(position(count - 1));
    return;
  }
  ends_ = model::step_ends(trace, device);
  end_ = static_cast<double>(ends_.size()) + (ends_.back().event < count ? 1 : 0);
}

double Axis::position(std::uint32_t event) const {
  if (event >= event_count(device_)) return end_;
  switch (kind_) {
    case AxisKind::kEvent:
      return event;
    case AxisKind::kTime:
      return nanoseconds(latest_ns(0), latest_ns(event));
    case AxisKind::kStep:
      return step_position(event);
  }
  return 0;
}

double Axis::step_position(std::uint32_t event) const {
  const std::size_t step = model::step_of(ends_, event);
  const bool is_ended = step < ends_.size();
  const std::uint32_t first = step == 0 ? 0 : ends_[step - 1].event;
  const std::uint32_t end = is_ended ? ends_[step].event : event_count(device_);
  std::int64_t begin_ns = latest_ns(first);
  std::int64_t end_ns = latest_ns(end - 1);
  double part = 0;
  if (begin_ns < end_ns) {
    if (step > 0 && ends_[step - 1].time_ns != kNoTime) {
      begin_ns = std::min(begin_ns, ends_[step - 1].time_ns);
    }
    if (is_ended) end_ns = std::max(end_ns, ends_[step].time_ns);
    part = nanoseconds(begin_ns, latest_ns(event)) / nanoseconds(begin_ns, end_ns);
  } else {
    part = static_cast<double>(event - first) / static_cast<double>(end - first);
  }
  const auto whole = static_cast<double>(step);
  return std::min(whole + part, std::nextafter(whole + 1, 0.0));
}

std::uint32_t Axis::first_event(double position) const {
  std::uint32_t from = 0;
  std::uint32_t end = event_count(device_);
  while (from < end) {
    const std::uint32_t middle = from + (end - from) / 2;
    if (this->position(middle) < position) {
      from = middle + 1;
    } else {
      end = middle;
    }
  }
  return from;
}

}  // namespace plimsoll::tiles
