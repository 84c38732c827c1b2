#include "model/trace_builder.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "model/diagnostics.h"
#include "model/figure_limits.h"
#include "model/lifetime_pairing.h"
#include "model/lone_frees.h"

namespace plimsoll::model {
namespace {

// Ring sizes are round numbers: people write 100_000 or 2**20, never 22_332.
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

DeviceTrace& TraceBuilder::device_trace(Device device) {
  const auto [known, is_new] = devices_.try_emplace(device);
  DeviceTrace& trace = known->second;
  if (is_new) {
    trace.device = device;
    trace.mark_events.resize(trace_.marks.size(), 0);
  }
  return trace;
}

bool TraceBuilder::rename_device(Device from, Device to) {
  if (devices_.contains(to) || !devices_.contains(from)) return false;
  auto row = devices_.extract(from);
  row.key() = row.mapped().device = to;
  devices_.insert(std::move(row));
  return true;
}

std::uint32_t TraceBuilder::add_event(Device device, const Event& event) {
  Events& rows = events(device);
  rows.push_back(event, trace_.sites.intern(event));
  return static_cast<std::uint32_t>(rows.size() - 1);
}

std::uint32_t TraceBuilder::add_alloc(Device device, const Event& event,
                                      const Hindsight& hindsight) {
  const std::uint32_t row = add_event(device, event);
  Lifetimes& rows = lifetimes(device);
  const std::size_t lifetime = rows.size();
  rows.alloc.push_back(row);
  rows.category.set(lifetime, hindsight.category);
  rows.tensor.set(lifetime, hindsight.tensor);
  rows.flags.set(lifetime, hindsight.flags);
  rows.set_use(lifetime, hindsight.use);
  return row;
}

std::uint64_t TraceBuilder::event_count() const {
  std::uint64_t count = 0;
  for (const auto& [name, device] : devices_) count += device.events.size();
  return count;
}

std::uint64_t TraceBuilder::memory_bytes() const {
  std::uint64_t bytes = trace_.stacks.memory_bytes() + trace_.sites.memory_bytes() +
                        trace_.segments.memory_bytes() + trace_.blocks.memory_bytes() +
                        (trace_.streams.size() + trace_.pools.size()) * kIdBytes + reading_bytes_ +
                        trace_.modules.capacity() * sizeof(Module) + trace_.source.memory_bytes();
  for (const auto& [name, device] : devices_) {
    bytes += device.events.memory_bytes() + device.lifetimes.memory_bytes() +
             device.mark_events.memory_bytes();
  }
  return bytes;
}

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
  for (auto& [name, device] : devices_) {
    device.mark_events.push_back(static_cast<std::uint32_t>(device.events.size()));
  }
}

void TraceBuilder::drop_steps() {
  std::size_t kept = 0;
  for (std::size_t row = 0; row < trace_.marks.size(); ++row) {
    if (trace_.marks[row].kind == MarkKind::kStep) continue;
    trace_.marks[kept] = trace_.marks[row];
    for (auto& [name, device] : devices_) device.mark_events[kept] = device.mark_events[row];
    ++kept;
  }
  trace_.marks.resize(kept);
  for (auto& [name, device] : devices_) device.mark_events.resize(kept);
}

std::vector<std::uint32_t> TraceBuilder::marks_of(Device device, MarkKind kind) {
  const DeviceTrace& trace = device_trace(device);
  std::vector<std::uint32_t> events;
  for (std::size_t row = 0; row < trace_.marks.size(); ++row) {
    if (trace_.marks[row].kind == kind) events.push_back(trace.mark_events[row]);
  }
  return events;
}

void TraceBuilder::add_reading(DeviceReading reading) {
  constexpr std::size_t kProcessBytes = sizeof(base::DeviceProcess) + 64;
  reading_bytes_ += sizeof(reading) + reading.figures.processes.size() * kProcessBytes;
  reading.events_before = static_cast<std::uint32_t>(events(reading.device).size());
  trace_.readings.push_back(std::move(reading));
}

void TraceBuilder::mark_truncated(Device device) { truncated_.push_back(device); }

void TraceBuilder::sort_segments() {
  auto key = [](const Segment& segment) { return std::pair(segment.device, segment.address); };
  auto less = [&](const Segment& a, const Segment& b) { return key(a) < key(b); };
  if (!std::is_sorted(trace_.segments.begin(), trace_.segments.end(), less)) {
    std::stable_sort(trace_.segments.begin(), trace_.segments.end(), less);
    // Blocks are ordered like their segments, so that a block's row identifies its segment.
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
    DeviceTrace& device = *std::ranges::lower_bound(trace_.devices, trace_.segments[row].device, {},
                                                    &DeviceTrace::device);
    if (device.segment_count == 0) device.first_segment = row;
    ++device.segment_count;
  }
}

// Orders annotations by begin, then end: those that began before the recording come first, those
// that have not ended last. Ties are broken by name, so the order in the file does not matter.
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

// Uses the pairs that the reader supplied, or pairs by address.
void TraceBuilder::pair(DeviceTrace& device, base::Progress& progress) {
  Lifetimes& rows = device.lifetimes;
  if (std::ranges::find(with_pairs_, device.device) != with_pairs_.end()) {
    rows.free_completed.append(rows.free_requested.span());
    return;
  }
  join_lone_frees(trace_, device, diagnostics_);
  Lifetimes given = std::exchange(rows, Lifetimes{});
  LifetimePairing(trace_, device, diagnostics_).run(progress);
  // The columns are in order of birth too, but lack the lifetimes from before the first event.
  const auto take = [&](auto& column, auto& of_births) {
    of_births.shift(rows.baseline_count);
    column = std::move(of_births);
  };
  take(rows.category, given.category);
  take(rows.tensor, given.tensor);
  take(rows.flags, given.flags);
  take(rows.unused_from, given.unused_from);
  take(rows.silence, given.silence);
  take(rows.use_gap, given.use_gap);
  take(rows.holder, given.holder);
}

Result<Trace> TraceBuilder::finish(std::string_view format, base::Progress& progress) {
  trace_.format = format;
  if (event_count() >= kBeforeRecording || trace_.blocks.size() >= kNone) {
    return make_error(ErrorCode::kLimit, "more than 4,294,967,293 events or blocks in one file");
  }
  for (auto& [name, device] : devices_) trace_.devices.push_back(std::move(device));
  devices_.clear();
  trace_.source.sort();
  sort_segments();
  PLIMSOLL_TRY(bound_figures(trace_, diagnostics_));
  sort_annotations();
  for (DeviceTrace& device : trace_.devices) {
    const bool is_without =
        std::ranges::find(without_final_state_, device.device) != without_final_state_.end();
    device.has_final_state = trace_.has_final_state && !is_without;
    pair(device, progress);
    for (const Liveness each : {Liveness::kAllocated, Liveness::kActive}) {
      device.live_index[static_cast<std::size_t>(each)] = LiveIndex(device.lifetimes, each);
    }
    if (progress.interrupted()) return make_error(ErrorCode::kInterrupted, "stopped while pairing");
    if (device.events.size() == 0) continue;
    const bool is_reported = std::ranges::find(truncated_, device.device) != truncated_.end();
    const bool is_truncated = is_reported || (device.lifetimes.baseline_count > 0 &&
                                              looks_like_ring_size(device.events.size()));
    device.history = is_truncated ? History::kTruncated : History::kComplete;
    if (is_truncated) {
      diagnostics_.add(kHistoryTruncated, 1,
                       to_string(device.device) + " holds exactly " +
                           std::to_string(device.events.size()) + " events");
    }
  }
  return std::move(trace_);
}

}  // namespace plimsoll::model
