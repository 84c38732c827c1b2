#include "model/trace_builder.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "model/diagnostics.h"
#include "model/figure_limits.h"
#include "model/lifetime_pairing.h"

namespace plimsoll::model {
namespace {

// Ring sizes are round: people write 100_000 or 2**20, never 22,332.
bool looks_like_ring_size(std::size_t count) {
  const bool is_power_of_two = (count & (count - 1)) == 0;
  return count >= 1000 && (count % 1000 == 0 || is_power_of_two);
}

}  // namespace

StreamId TraceBuilder::stream(std::uint64_t handle) {
  const StreamId next{static_cast<std::uint32_t>(trace_.streams.size())};
  const auto [known, is_new] = stream_ids_.try_emplace(handle, next);
  if (is_new) trace_.streams.push_back(handle);
  return known->second;
}

PoolId TraceBuilder::pool(Pool pool) {
  const PoolId next{static_cast<std::uint32_t>(trace_.pools.size())};
  const auto [known, is_new] = pool_ids_.try_emplace(pool, next);
  if (is_new) trace_.pools.push_back(pool);
  return known->second;
}

void TraceBuilder::place(Device device, std::uint64_t first, std::uint64_t count) {
  name_device(device);
  if (count == 0) return;
  if (!slices_.empty()) {
    Slice& last = slices_.back();
    if (last.device == device && last.first + last.count == first) {
      last.count += count;
      return;
    }
  }
  slices_.push_back(Slice{device, first, count});
}

DeviceTrace& TraceBuilder::device_trace(Device device) {
  auto found = std::ranges::lower_bound(trace_.devices, device, {}, &DeviceTrace::device);
  if (found == trace_.devices.end() || found->device != device) {
    found = trace_.devices.emplace(found);
    found->device = device;
  }
  return *found;
}

void TraceBuilder::name_device(Device device) { device_trace(device); }

void TraceBuilder::add_segment(const Segment& segment, std::span<const Block> blocks) {
  name_device(segment.device);
  trace_.has_final_state = true;
  Segment row = segment;
  row.first_block = static_cast<std::uint32_t>(trace_.blocks.size());
  row.block_count = static_cast<std::uint32_t>(blocks.size());
  trace_.blocks.append(blocks);
  trace_.segments.push_back(row);
}

void TraceBuilder::add_setting(Setting setting) {
  trace_.has_settings = true;
  trace_.settings.push_back(std::move(setting));
}

void TraceBuilder::set_before(Device device, std::uint64_t allocated_bytes,
                              std::uint64_t reserved_bytes) {
  DeviceTrace& trace = device_trace(device);
  trace.allocated_before_bytes = allocated_bytes;
  trace.reserved_before_bytes = reserved_bytes;
}

TensorId TraceBuilder::add_tensor(Tensor tensor) {
  trace_.tensors.push_back(tensor);
  return TensorId{static_cast<std::uint32_t>(trace_.tensors.size() - 1)};
}

ShortageId TraceBuilder::add_shortage(const Shortage& shortage) {
  trace_.shortages.push_back(shortage);
  return ShortageId{static_cast<std::uint32_t>(trace_.shortages.size() - 1)};
}

void TraceBuilder::add_mark(const Mark& mark) {
  trace_.marks.push_back(mark);
  mark_rows_.push_back(event_count());
}

void TraceBuilder::drop_steps() {
  std::size_t kept = 0;
  for (std::size_t row = 0; row < trace_.marks.size(); ++row) {
    if (trace_.marks[row].kind == MarkKind::kStep) continue;
    trace_.marks[kept] = trace_.marks[row];
    mark_rows_[kept] = mark_rows_[row];
    ++kept;
  }
  trace_.marks.resize(kept);
  mark_rows_.resize(kept);
}

void TraceBuilder::add_look(DeviceLook look) {
  name_device(look.device);
  constexpr std::size_t kProcessBytes = sizeof(base::DeviceProcess) + 64;
  look_bytes_ += sizeof(look) + look.figures.processes.size() * kProcessBytes;
  trace_.looks.push_back(std::move(look));
  look_rows_.push_back(event_count());
}

void TraceBuilder::mark_truncated(Device device) { truncated_.push_back(device); }

// Makes each device's events one run of rows, in the order of the devices. Mostly they are so
// already.
Status TraceBuilder::gather_slices() {
  std::ranges::stable_sort(slices_, {}, &Slice::device);
  std::uint64_t next = 0;
  bool in_place = true;
  for (const Slice& slice : slices_) {
    in_place = in_place && slice.first == next;
    next += slice.count;
  }
  in_place = in_place && next == trace_.events.size();
  const std::uint64_t left_out =
      trace_.events.size() - std::min<std::uint64_t>(next, trace_.events.size());
  diagnostics_.add(kUnplacedEvents, left_out);
  if (next > trace_.events.size()) {
    return make_error(ErrorCode::kCorrupt, "the same events are in the lists of two devices");
  }
  if (!in_place) {
    Events ordered;
    for (const Slice& slice : slices_) {
      for (std::uint64_t row = slice.first; row < slice.first + slice.count; ++row) {
        ordered.push_back(trace_.events.at(row));
      }
    }
    trace_.events = std::move(ordered);
  }
  std::uint64_t first = 0;
  for (const Slice& slice : slices_) {
    DeviceTrace& device = device_trace(slice.device);
    if (device.event_count == 0) device.first_event = first;
    device.event_count += slice.count;
    first += slice.count;
  }
  return {};
}

void TraceBuilder::sort_segments() {
  auto key = [](const Segment& segment) { return std::pair(segment.device, segment.address); };
  auto less = [&](const Segment& a, const Segment& b) { return key(a) < key(b); };
  if (!std::is_sorted(trace_.segments.begin(), trace_.segments.end(), less)) {
    std::stable_sort(trace_.segments.begin(), trace_.segments.end(), less);
    // Blocks follow their segments, so that a segment can be found from a block by its row.
    base::Column<Block> blocks;
    blocks.reserve(trace_.blocks.size());
    for (Segment& segment : trace_.segments) {
      const auto rows = trace_.blocks.span(segment.first_block, segment.block_count);
      segment.first_block = static_cast<std::uint32_t>(blocks.size());
      blocks.append(rows);
    }
    trace_.blocks = std::move(blocks);
  }
  for (std::uint32_t row = 0; row < trace_.segments.size(); ++row) {
    DeviceTrace& device = device_trace(trace_.segments[row].device);
    if (device.segment_count == 0) device.first_segment = row;
    ++device.segment_count;
  }
}

// How many events of a device come before a row, for rows that ascend, as the slices of a device
// do: each slice is passed once.
class TraceBuilder::EventsBefore {
 public:
  EventsBefore(const std::vector<Slice>& slices, Device device)
      : device_(device),
        slice_(std::ranges::find(slices, device, &Slice::device)),
        end_(slices.end()) {}

  std::uint32_t count(std::uint64_t row) {
    for (; is_here() && slice_->first + slice_->count <= row; ++slice_) passed_ += slice_->count;
    const bool is_within = is_here() && slice_->first < row;
    return static_cast<std::uint32_t>(passed_ + (is_within ? row - slice_->first : 0));
  }

 private:
  bool is_here() const { return slice_ != end_ && slice_->device == device_; }

  Device device_;
  std::vector<Slice>::const_iterator slice_;
  std::vector<Slice>::const_iterator end_;
  std::uint64_t passed_ = 0;  // events of the slices before
};

void TraceBuilder::place_marks() {
  if (mark_rows_.empty()) return;
  for (DeviceTrace& device : trace_.devices) {
    EventsBefore before(slices_, device.device);
    for (const std::uint64_t row : mark_rows_) device.mark_events.push_back(before.count(row));
  }
}

void TraceBuilder::place_looks() {
  std::map<Device, EventsBefore> before;
  for (std::size_t i = 0; i < look_rows_.size(); ++i) {
    DeviceLook& look = trace_.looks[i];
    const auto found = before.try_emplace(look.device, slices_, look.device).first;
    look.events_before = found->second.count(look_rows_[i]);
  }
}

// By begin, then end: what began before the recording first, what has not ended last. The name's
// text decides the rest, so that the order does not depend on the file's.
void TraceBuilder::sort_annotations() {
  auto end_ns = [](const Annotation& annotation) {
    const bool is_open = annotation.end_ns == kNoTime;
    return is_open ? std::numeric_limits<std::int64_t>::max() : annotation.end_ns;
  };
  std::ranges::sort(trace_.annotations, [&](const Annotation& a, const Annotation& b) {
    const auto key = [&](const Annotation& annotation) {
      return std::tuple(annotation.begin_ns, end_ns(annotation), annotation.device,
                        trace_.strings[annotation.name]);
    };
    return key(a) < key(b);
  });
}

// The pairs that the reader gave, as the lifetimes of the only device. False: there are none, or
// several devices, whose events have moved.
bool TraceBuilder::take_pairs(DeviceTrace& device) {
  if (!has_pairs_ || device.event_count != trace_.events.size()) return false;
  device.lifetimes = std::move(pairs_);
  device.lifetimes.free_completed.append(device.lifetimes.free_requested.span());
  device.lifetimes.block.resize(device.lifetimes.alloc.size(), kNone);
  return true;
}

Result<Trace> TraceBuilder::finish(std::string_view format, base::Progress& progress) {
  trace_.format = format;
  if (trace_.events.size() >= kBeforeRecording || trace_.blocks.size() >= kNone) {
    return make_error(ErrorCode::kLimit, "more than 4,294,967,293 events or blocks in one file");
  }
  PLIMSOLL_TRY(gather_slices());
  place_marks();
  place_looks();
  sort_segments();
  PLIMSOLL_TRY(bound_figures(trace_, diagnostics_));
  sort_annotations();
  for (DeviceTrace& device : trace_.devices) {
    const bool is_without =
        std::ranges::find(without_final_state_, device.device) != without_final_state_.end();
    device.has_final_state = trace_.has_final_state && !is_without;
    if (!take_pairs(device)) LifetimePairing(trace_, device, diagnostics_).run(progress);
    if (progress.interrupted()) return make_error(ErrorCode::kInterrupted, "stopped while pairing");
    if (device.event_count == 0) continue;
    const bool is_told = std::ranges::find(truncated_, device.device) != truncated_.end();
    const bool is_truncated = is_told || (device.lifetimes.baseline_count > 0 &&
                                          looks_like_ring_size(device.event_count));
    device.history = is_truncated ? History::kTruncated : History::kComplete;
    if (is_truncated) {
      diagnostics_.add(kHistoryTruncated, 1,
                       to_string(device.device) + " holds exactly " +
                           std::to_string(device.event_count) + " events");
    }
  }
  return std::move(trace_);
}

}  // namespace plimsoll::model
