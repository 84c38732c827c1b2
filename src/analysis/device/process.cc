#include "analysis/device/process.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/running_totals.h"

namespace plimsoll::analysis::device {
namespace {

using model::DeviceReading;

// By then the optimizer has its state, and libraries what they allocate at first use.
constexpr std::uint64_t kWarmUpSteps = 3;
// With growth in every step, the last steps have their share of it. A cache that is full, a module
// that was imported late and a single evaluation grow in one interval and then stop.
constexpr double kLastSteps = 0.2;          // at least this share of the steps; one reading or more
constexpr double kLeastShareOfRate = 0.25;  // of the mean
constexpr double kMostInOneInterval = 0.75;

// A reading after the warm-up.
struct Point {
  std::uint64_t steps = 0;   // that had ended
  std::int64_t highest = 0;  // bytes that the process has had at most
  // Of these, above the most that tensors have had at a time, and that the C library has not
  // returned. What it has is in pieces: it may have many times what tensors have at their peak.
  std::int64_t outside = 0;
};

// How many steps had ended at each of these times. In a program without steps, such as inference,
// they are those of the start, of 3, 6, 12, … calls of its models, and of the end.
std::vector<std::uint64_t> steps_at(const model::Trace& trace,
                                    const std::vector<std::int64_t>& times) {
  std::vector<std::int64_t> ends;  // in order of time
  for (const model::Mark& mark : trace.marks) {
    if (mark.kind == model::MarkKind::kStep) ends.push_back(mark.time_ns);
  }
  std::vector<std::uint64_t> steps;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto ended = std::ranges::upper_bound(ends, times[i]) - ends.begin();
    const bool is_of_calls = ends.empty() && i > 0 && times.size() > 2;
    steps.push_back(is_of_calls ? kWarmUpSteps << (i - 1) : static_cast<std::uint64_t>(ended));
  }
  if (!ends.empty() || steps.size() < 4) return steps;
  // The end is after any number of calls.
  const std::size_t end = steps.size() - 1;
  const auto calls = static_cast<double>(steps[end - 1] - steps[end - 2]);
  const auto before = static_cast<double>(times[end - 1] - times[end - 2]);
  const auto since = static_cast<double>(times[end] - times[end - 1]);
  // The next reading would have come after as many calls again as all before.
  const double most = static_cast<double>(steps[end - 1]);
  steps[end] = steps[end - 1] + static_cast<std::uint64_t>(
                                    before > 0 ? std::min(most, calls * since / before) : most);
  return steps;
}

std::vector<Point> points_after_warm_up(const model::Trace& trace, const model::DeviceTrace& cpu,
                                        const report::DeviceReport& totals) {
  std::vector<const DeviceReading*> readings;
  std::vector<std::int64_t> times;
  for (const DeviceReading& reading : trace.readings) {
    if (reading.device != cpu.device || !reading.figures.highest_bytes) continue;
    readings.push_back(&reading);
    times.push_back(reading.time_ns);
  }
  const std::vector<std::uint64_t> steps = steps_at(trace, times);
  const EventView view = view_of(cpu);
  Totals live = baseline_totals(totals.timeline);
  const auto live_bytes = [&] {
    return static_cast<std::int64_t>(of(live, Series::kRequestedActive));
  };
  std::int64_t peak = live_bytes();
  std::int64_t free_heap = 0;  // the most so far: tensors may use it again
  std::uint32_t next = 0;
  std::vector<Point> points;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    if (steps[i] < kWarmUpSteps) continue;
    const DeviceReading& reading = *readings[i];
    for (; next < reading.events_before; ++next) {
      view.apply_to(live, next);
      peak = std::max(peak, live_bytes());
    }
    const auto highest = static_cast<std::int64_t>(*reading.figures.highest_bytes);
    const std::uint64_t free_now = reading.figures.free_heap_bytes.value_or(0);
    free_heap = std::max(free_heap, static_cast<std::int64_t>(free_now));
    points.push_back({steps[i], highest, highest - peak - free_heap});
  }
  return points;
}

std::int64_t growth_of(std::span<const Point> points) {
  return points.back().outside - points.front().outside;
}

// Whether the growth from the first point to the last goes on.
bool goes_on(std::span<const Point> points) {
  const auto share = static_cast<double>(growth_of(points));
  const auto since = [&](const Point& point) {
    return static_cast<double>(points.back().steps - point.steps);
  };
  const double steps = since(points.front());
  Point last = points.front();
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (since(points[i]) >= kLastSteps * steps) last = points[i];
    const std::int64_t grown = points[i].outside - points[i - 1].outside;
    if (static_cast<double>(grown) > kMostInOneInterval * share) return false;
  }
  const auto later = static_cast<double>(points.back().outside - last.outside);
  return later * steps >= kLeastShareOfRate * share * since(last);
}

}  // namespace

void add_process(const model::Trace& trace, const model::DeviceTrace& cpu,
                 report::DeviceReport& out) {
  for (const DeviceReading& reading : trace.readings) {
    const base::DeviceFigures& figures = reading.figures;
    if (reading.device != cpu.device || !figures.own_bytes) continue;
    (out.process_start_bytes ? out.process_end_bytes : out.process_start_bytes) = figures.own_bytes;
    if (figures.highest_bytes) out.process_highest_bytes = figures.highest_bytes;
    if (figures.free_heap_bytes) out.process_free_heap_bytes = figures.free_heap_bytes;
  }
  const std::vector<Point> all = points_after_warm_up(trace, cpu, out);
  if (all.empty()) return;
  out.process_warm_bytes = static_cast<std::uint64_t>(all.front().highest);
  std::span<const Point> points = all;
  // What functions held that have returned by the end is free then.
  const auto before_end = points.first(points.size() - 1);
  if (points.size() > 2 && growth_of(before_end) > growth_of(points) && goes_on(before_end)) {
    points = before_end;
  }
  if (growth_of(points) <= 0) return;
  out.process_growth_bytes = static_cast<std::uint64_t>(growth_of(points));
  out.is_process_growing = goes_on(points);
}

void clear_process(report::DeviceReport& out) {
  out.process_start_bytes.reset();
  out.process_end_bytes.reset();
  out.process_highest_bytes.reset();
  out.process_free_heap_bytes.reset();
  out.process_warm_bytes.reset();
  out.process_growth_bytes.reset();
  out.is_process_growing = false;
}

}  // namespace plimsoll::analysis::device
