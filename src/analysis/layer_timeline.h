// The activity of a device, in order: allocations, frees, and the begins and ends of layer calls,
// each with the device's totals after it. The engine's table `timeline` lists these rows, and the
// layers pass aggregates them.
//
// Allocated bytes are those that tables count (model/live_set.h). Reserved bytes are the segments
// that the allocator has obtained from the driver; on a device without segments (the CPU) they are
// the allocated bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "analysis/replay.h"
#include "analysis/running_totals.h"
#include "model/live_set.h"
#include "model/trace.h"

namespace plimsoll::analysis {

enum class Happening : std::uint8_t {
  kAlloc,
  kFree,
  // Memory that was already live: at the start, and where the recording first saw it later. Also
  // the totals at the end, with no bytes of its own.
  kSnapshot,
  kLayerEnter,
  kLayerExit,
};

struct TimelineRow {
  Happening what = Happening::kSnapshot;
  std::uint32_t lifetime = model::kNone;  // kAlloc and kFree: row of device.lifetimes
  std::uint32_t mark = model::kNone;      // kLayerEnter and kLayerExit: row of Trace::marks
  std::uint64_t size_bytes = 0;
  std::int64_t time_ns = model::kNoTime;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
};

inline double fragmentation_ratio(const TimelineRow& row) {
  if (row.reserved_bytes <= row.allocated_bytes) return 0.0;
  return static_cast<double>(row.reserved_bytes - row.allocated_bytes) /
         static_cast<double>(row.reserved_bytes);
}

// Calls visit(const TimelineRow&) for each row of the device.
template <typename Visit>
class LayerTimeline {
 public:
  LayerTimeline(const model::Trace& trace, const model::DeviceTrace& device, Visit& visit)
      : trace_(trace), device_(device), events_(view_of(device)), visit_(visit) {
    for (std::size_t row = 0; row < events_.count; ++row) {
      const std::uint64_t sign = segment_sign(row);
      has_segments_ = has_segments_ || sign != 0;
      reserved_ -= sign * events_.size_bytes[row];
    }
    const auto segments = trace.segments.span(device.first_segment, device.segment_count);
    has_segments_ = has_segments_ || !segments.empty() || device.reserved_before_bytes;
    for (const model::Segment& segment : segments) reserved_ += segment.total_size;
    if (!device.has_final_state || device.reserved_before_bytes) {
      reserved_ = device.reserved_before_bytes.value_or(0);
    }
    for (std::size_t row = 0; row < device.lifetimes.baseline_count; ++row) {
      if (death(device.lifetimes, row, model::default_liveness(device)) == model::kBeforeRecording)
        continue;
      allocated_ += trace.lifetime_bytes(device, row);
    }
  }

  void run() {
    met_bytes_ = allocated_;
    last_ns_ = met_ns_ = trace_.started_ns;
    replay(
        device_, model::default_liveness(device_),
        [&](std::uint32_t lifetime, std::uint32_t event) { born(lifetime, event); },
        [&](std::uint32_t lifetime, std::uint32_t event) { died(lifetime, event); });
    if (events_.count > 0) advance(static_cast<std::uint32_t>(events_.count - 1));
    pass_marks(static_cast<std::uint32_t>(events_.count));
    flush();
    emit({.what = Happening::kSnapshot, .time_ns = last_ns_});
  }

 private:
  std::uint64_t segment_sign(std::size_t row) const {
    return model::kSigns[static_cast<std::size_t>(events_.action[row])].reserved;
  }

  void born(std::uint32_t lifetime, std::uint32_t event) {
    advance(event);
    const std::uint64_t size_bytes = trace_.lifetime_bytes(device_, lifetime);
    const bool is_met = has(device_.lifetimes.flags[lifetime], model::LifetimeFlags::kAdopted);
    if (!is_met) flush();
    allocated_ += size_bytes;
    if (is_met) {
      met_bytes_ += size_bytes;
      met_ns_ = events_.time_ns[event];
      has_met_ = true;
      return;
    }
    emit({.what = Happening::kAlloc,
          .lifetime = lifetime,
          .size_bytes = size_bytes,
          .time_ns = events_.time_ns[event]});
  }

  void died(std::uint32_t lifetime, std::uint32_t event) {
    advance(event);
    flush();
    const std::uint64_t size_bytes = trace_.lifetime_bytes(device_, lifetime);
    allocated_ -= size_bytes;
    emit({.what = Happening::kFree,
          .lifetime = lifetime,
          .size_bytes = size_bytes,
          .time_ns = events_.time_ns[event]});
  }

  // Processes the events up to this one, and the marks between them. Times of different threads may
  // go backwards slightly.
  void advance(std::uint32_t event) {
    for (; next_ <= event; ++next_) {
      pass_marks(next_);
      reserved_ += segment_sign(next_) * events_.size_bytes[next_];
      if (events_.time_ns[next_] != model::kNoTime) last_ns_ = events_.time_ns[next_];
    }
  }

  void pass_marks(std::uint32_t event) {
    for (; mark_ < trace_.marks.size() && device_.mark_events[mark_] <= event; ++mark_) {
      const model::Mark& mark = trace_.marks[mark_];
      if (mark.time_ns != model::kNoTime) last_ns_ = mark.time_ns;
      const bool is_enter = mark.kind == model::MarkKind::kLayerBegin;
      if (!is_enter && mark.kind != model::MarkKind::kLayerEnd) continue;
      flush();
      emit({.what = is_enter ? Happening::kLayerEnter : Happening::kLayerExit,
            .mark = mark_,
            .time_ns = mark.time_ns});
    }
  }

  // Reports memory first seen since the last row as one row.
  void flush() {
    if (!has_met_) return;
    has_met_ = false;
    emit({.what = Happening::kSnapshot, .size_bytes = met_bytes_, .time_ns = met_ns_});
    met_bytes_ = 0;
  }

  void emit(TimelineRow row) {
    row.allocated_bytes = allocated_;
    row.reserved_bytes = has_segments_ ? reserved_ : allocated_;
    visit_(static_cast<const TimelineRow&>(row));
  }

  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  const EventView events_;
  Visit& visit_;
  std::uint64_t allocated_ = 0;  // sums wrap: a hostile file may have any size
  std::uint64_t reserved_ = 0;
  std::uint64_t met_bytes_ = 0;
  bool has_met_ = true;  // the first row states what was live at the start
  bool has_segments_ = false;
  std::int64_t met_ns_ = model::kNoTime;  // when the last of that memory was seen
  std::int64_t last_ns_ = model::kNoTime;
  std::uint32_t next_ = 0;
  std::uint32_t mark_ = 0;
};

template <typename Visit>
void for_each_happening(const model::Trace& trace, const model::DeviceTrace& device,
                        Visit&& visit) {
  LayerTimeline<std::remove_reference_t<Visit>>(trace, device, visit).run();
}

}  // namespace plimsoll::analysis
