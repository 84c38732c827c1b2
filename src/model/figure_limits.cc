#include "model/figure_limits.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "model/diagnostics.h"

namespace plimsoll::model {
namespace {

// A sum of sizes that cannot overflow: the upper and lower halves of the values are summed
// separately, which allows 2^32 values.
class Sum {
 public:
  void add(std::uint64_t value) {
    low_ += value & 0xFFFFFFFFu;
    high_ += value >> 32;
  }
  bool is_above(std::uint64_t most) const { return high_ + (low_ >> 32) >= most >> 32; }

 private:
  std::uint64_t low_ = 0;
  std::uint64_t high_ = 0;
};

class Bounds {
 public:
  explicit Bounds(base::Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  // The place is formatted only if needed.
  template <typename Place>
  void lower(std::uint64_t& bytes, std::uint64_t most, Place&& place) {
    if (bytes <= most) return;
    diagnostics_.add(kImplausibleSize, 1, place() + ": " + std::to_string(bytes) + " bytes");
    bytes = most;
  }
  template <typename Place>
  void size(std::uint64_t& bytes, Place&& place) {
    lower(bytes, kMostBytes, place);
    sum_.add(bytes);
  }
  template <typename Place>
  void size(std::optional<std::uint64_t>& bytes, Place&& place) {
    if (bytes) size(*bytes, place);
  }
  template <typename Place>
  void time(std::int64_t& time_ns, Place&& place) {
    if (time_ns == kNoTime || (time_ns <= kLatestNs && time_ns >= -kLatestNs)) return;
    diagnostics_.add(kImplausibleTime, 1, place() + ": " + std::to_string(time_ns) + " ns");
    time_ns = std::clamp(time_ns, -kLatestNs, kLatestNs);
  }
  bool is_total_above(std::uint64_t most) const { return sum_.is_above(most); }

 private:
  base::Diagnostics& diagnostics_;
  Sum sum_;
};

void bound_events(DeviceTrace& device, Bounds& bounds) {
  Events& events = device.events;
  std::uint64_t* const padding =
      events.padding_bytes.present() ? events.padding_bytes.rows(events.size()) : nullptr;
  for (std::size_t row = 0; row < events.size(); ++row) {
    const auto place = [&] { return to_string(device.device) + " event " + std::to_string(row); };
    if (events.action[row] == Action::kOom) {  // `address` is the free bytes
      bounds.size(events.address[row], place);
      bounds.lower(events.size_bytes[row], kMostRequestBytes, place);  // requests are never summed
    } else {
      bounds.size(events.size_bytes[row], place);
    }
    if (padding != nullptr) bounds.size(padding[row], place);
    bounds.time(events.time_ns[row], place);
  }
}

void bound_final_state(Trace& trace, Bounds& bounds) {
  for (Segment& segment : trace.segments) {
    const auto place = [&] { return "segment at " + std::to_string(segment.address); };
    for (std::uint64_t* const size : {&segment.total_size, &segment.allocated_size,
                                      &segment.active_size, &segment.requested_size}) {
      bounds.size(*size, place);
    }
  }
  for (Block& block : trace.blocks) {
    const auto place = [&] { return "block at " + std::to_string(block.address); };
    bounds.size(block.size, place);
    bounds.size(block.requested_size, place);
  }
  for (DeviceTrace& device : trace.devices) {
    const auto place = [&] { return "before the first event on " + to_string(device.device); };
    bounds.size(device.allocated_before_bytes, place);
    bounds.size(device.reserved_before_bytes, place);
  }
}

void bound_readings(Trace& trace, Bounds& bounds) {
  for (DeviceReading& reading : trace.readings) {
    const auto place = [&] { return "the driver's figures of " + to_string(reading.device); };
    base::DeviceFigures& figures = reading.figures;
    for (std::optional<std::uint64_t>* const bytes :
         {&figures.total_bytes, &figures.free_bytes, &figures.driver_bytes,
          &figures.allocated_bytes, &figures.reserved_bytes, &figures.own_bytes,
          &figures.highest_bytes, &figures.free_heap_bytes, &figures.context_bytes}) {
      bounds.size(*bytes, place);
    }
    for (base::DeviceProcess& process : figures.processes) bounds.size(process.used_bytes, place);
    bounds.time(reading.time_ns, place);
  }
  for (Module& module : trace.modules) {
    bounds.size(module.parameter_bytes, [] { return std::string("parameters of a module"); });
  }
  for (Shortage& shortage : trace.shortages) {
    const auto place = [] { return std::string("limits of a failed request"); };
    bounds.size(shortage.limit_bytes, place);
    bounds.size(shortage.total_bytes, place);
  }
}

void bound_times(Trace& trace, Bounds& bounds) {
  bounds.time(trace.started_ns, [] { return std::string("start of the recording"); });
  for (Mark& mark : trace.marks) bounds.time(mark.time_ns, [] { return std::string("mark"); });
  for (Annotation& annotation : trace.annotations) {
    const auto place = [] { return std::string("annotation"); };
    bounds.time(annotation.begin_ns, place);
    bounds.time(annotation.end_ns, place);
  }
}

}  // namespace

Status bound_figures(Trace& trace, base::Diagnostics& diagnostics) {
  Bounds bounds(diagnostics);
  for (DeviceTrace& device : trace.devices) bound_events(device, bounds);
  bound_final_state(trace, bounds);
  bound_readings(trace, bounds);
  bound_times(trace, bounds);
  if (!bounds.is_total_above(kMostTotalBytes)) return {};
  std::string first;
  for (const base::Diagnostic& each : diagnostics.all()) {
    if (each.kind == &kImplausibleSize) first = "; the first above 1 PiB is " + each.first_example;
  }
  return make_error(ErrorCode::kCorrupt,
                    "the sizes of its " + std::to_string(trace.event_count()) + " events and " +
                        std::to_string(trace.blocks.size()) +
                        " blocks add up to more than 2 EiB: the file is damaged" + first);
}

}  // namespace plimsoll::model
