#include "analysis/timeline/timeline.h"

#include <algorithm>

#include "analysis/running_totals.h"
#include "model/live_set.h"
#include "report/device_report.h"

namespace plimsoll::analysis::timeline {
namespace {

using model::Action;
using model::BlockState;
using model::DeviceTrace;
using model::kNone;
using model::kNoTime;
using model::Trace;
using report::DeviceReport;
using report::kSeriesCount;
using report::SeriesTotals;
using report::Timeline;
using report::TimelineBucket;

constexpr std::size_t kCoarseEnough = 64;  // a level this small needs no coarser level
constexpr std::size_t kBucketsPerProgress = 1 << 13;

std::int64_t as_signed(std::uint64_t total) { return static_cast<std::int64_t>(total); }

// The blocks that wait for a stream, but whose free was requested by no event of the file. The
// events leave them allocated.
std::vector<std::uint32_t> pending_without_request(const Trace& trace, const DeviceTrace& device) {
  std::vector<std::uint32_t> blocks;
  const model::Lifetimes& lifetimes = device.lifetimes;
  if (!lifetimes.block.present()) return blocks;
  for (std::uint32_t row = 0; row < lifetimes.size(); ++row) {
    const std::uint32_t block = lifetimes.block[row];
    if (block == kNone || lifetimes.free_requested[row] != kNone) continue;
    if (trace.blocks[block].state == BlockState::kActivePendingFree) blocks.push_back(block);
  }
  return blocks;
}

// The totals of the final segments, as the events leave them; also fills in the counts of blocks.
Totals final_totals(const Trace& trace, const DeviceTrace& device, DeviceReport& out) {
  Totals end{};
  const auto add_allocated = [&](const model::Block& block) {
    of(end, Series::kRequestedAllocated) += block.requested_size;
    of(end, Series::kAllocatedRounded) +=
        device.has_block_sizes ? block.size : rounded(block.requested_size);
  };
  for (const std::uint32_t block : pending_without_request(trace, device)) {
    add_allocated(trace.blocks[block]);
  }
  out.segments = device.segment_count;
  for (std::uint32_t s = 0; s < device.segment_count; ++s) {
    const model::Segment& segment = trace.segments[device.first_segment + s];
    of(end, Series::kReserved) += segment.total_size;
    out.blocks += segment.block_count;
    for (const auto& block : trace.blocks.span(segment.first_block, segment.block_count)) {
      if (block.state == BlockState::kInactive) continue;
      of(end, Series::kRequestedActive) += block.requested_size;
      if (block.state != BlockState::kActiveAllocated) continue;
      add_allocated(block);
      out.allocated_bytes_end += block.size;
      ++out.blocks_allocated;
    }
  }
  return end;
}

// The totals before the first event; `sum` is the change by all events together.
Totals baseline_of(const Trace& trace, const DeviceTrace& device, const Totals& sum,
                   DeviceReport& out) {
  Totals baseline = final_totals(trace, device, out);
  if (device.has_final_state && !device.allocated_before_bytes) {
    for (std::size_t i = 0; i < kSeriesCount; ++i) baseline[i] -= sum[i];
    return baseline;
  }
  const std::uint64_t allocated = device.allocated_before_bytes.value_or(0);
  of(baseline, Series::kRequestedAllocated) = allocated;
  of(baseline, Series::kRequestedActive) = allocated;
  of(baseline, Series::kAllocatedRounded) = allocated;
  of(baseline, Series::kReserved) = device.reserved_before_bytes.value_or(0);
  return baseline;
}

// Adds events [first, first + count) to `totals` and returns their changes.
TimelineBucket fill_bucket(const EventView& events, std::size_t first, std::size_t count,
                           Totals& totals) {
  TimelineBucket bucket;
  bucket.first_event = first;
  bucket.event_count = count;
  bucket.first_time_ns = events.time_ns[first];
  bucket.last_time_ns = events.time_ns[first + count - 1];
  Totals now = totals;  // a copy that stays in registers
  events.apply_to(now, first);
  std::array<std::int64_t, kSeriesCount> low{};
  std::ranges::transform(now, low.begin(), as_signed);
  auto high = low;
  for (std::size_t row = first + 1; row < first + count; ++row) {
    events.apply_to(now, row);
    for (std::size_t i = 0; i < kSeriesCount; ++i) {
      low[i] = std::min(low[i], as_signed(now[i]));
      high[i] = std::max(high[i], as_signed(now[i]));
    }
  }
  for (std::size_t i = 0; i < kSeriesCount; ++i) {
    bucket.series[i] = {low[i], high[i], as_signed(now[i])};
  }
  totals = now;
  return bucket;
}

// The largest excess of active over reserved bytes after an event; 0 if there is none. Most
// buckets are decided by their minimum and maximum, without reading their events.
std::uint64_t active_above_reserved(const EventView& events, const Timeline& timeline) {
  const Series active =
      events.padding_bytes != nullptr ? Series::kAllocatedRounded : Series::kRequestedActive;
  Totals now = baseline_totals(timeline);
  const auto excess = [&] { return as_signed(of(now, active) - of(now, Series::kReserved)); };
  std::int64_t most = std::max<std::int64_t>(0, excess());
  if (timeline.levels.empty()) return static_cast<std::uint64_t>(most);
  for (const TimelineBucket& bucket : timeline.levels.front()) {
    const std::int64_t highest = bucket.of(active).max_bytes;
    if (highest > bucket.of(Series::kReserved).min_bytes) {
      for (std::size_t row = bucket.first_event; row < bucket.first_event + bucket.event_count;
           ++row) {
        events.apply_to(now, row);
        most = std::max(most, excess());
      }
    }
    for (std::size_t i = 0; i < kSeriesCount; ++i) {
      now[i] = static_cast<std::uint64_t>(bucket.series[i].last_bytes);
    }
  }
  return static_cast<std::uint64_t>(most);
}

// Starts at zero, because the baseline is known only after the last event; `totals` receives the
// change over all events.
std::vector<TimelineBucket> finest_level(const EventView& events, Totals& totals,
                                         base::Progress& progress) {
  std::vector<TimelineBucket> level;
  if (events.count == 0) return level;
  const std::size_t per_bucket = (events.count - 1) / Timeline::kFinestBuckets + 1;
  level.reserve((events.count - 1) / per_bucket + 1);
  for (std::size_t first = 0; first < events.count; first += per_bucket) {
    if (level.size() % kBucketsPerProgress == 0) progress.advance("timeline", first, events.count);
    if (progress.interrupted()) return level;
    level.push_back(fill_bucket(events, first, std::min(per_bucket, events.count - first), totals));
  }
  return level;
}

void lift(std::vector<TimelineBucket>& level, const Totals& baseline) {
  for (TimelineBucket& bucket : level) {
    for (std::size_t i = 0; i < kSeriesCount; ++i) {
      auto& series = bucket.series[i];
      for (std::int64_t* value : {&series.min_bytes, &series.max_bytes, &series.last_bytes}) {
        *value = as_signed(static_cast<std::uint64_t>(*value) + baseline[i]);
      }
    }
  }
}

void merge_into(TimelineBucket& into, const TimelineBucket& next) {
  into.event_count += next.event_count;
  into.last_time_ns = next.last_time_ns;
  for (std::size_t i = 0; i < kSeriesCount; ++i) {
    into.series[i].min_bytes = std::min(into.series[i].min_bytes, next.series[i].min_bytes);
    into.series[i].max_bytes = std::max(into.series[i].max_bytes, next.series[i].max_bytes);
    into.series[i].last_bytes = next.series[i].last_bytes;
  }
}

void add_coarser_levels(Timeline& timeline) {
  while (timeline.levels.back().size() > kCoarseEnough) {
    const auto& finer = timeline.levels.back();
    std::vector<TimelineBucket> level;
    level.reserve(finer.size() / Timeline::kFanOut + 1);
    for (std::size_t i = 0; i < finer.size(); ++i) {
      if (i % Timeline::kFanOut == 0) {
        level.push_back(finer[i]);
      } else {
        merge_into(level.back(), finer[i]);
      }
    }
    timeline.levels.push_back(std::move(level));
  }
}

// The first event in `bucket` after which the series reaches its maximum there. `before` is its
// value at the beginning of the bucket.
std::size_t event_of_maximum(const EventView& events, const TimelineBucket& bucket, Series which,
                             std::int64_t before) {
  const std::int64_t wanted = bucket.of(which).max_bytes;
  Totals totals{};
  of(totals, which) = static_cast<std::uint64_t>(before);
  std::size_t row = bucket.first_event;
  for (; row + 1 < bucket.first_event + bucket.event_count; ++row) {
    events.apply_to(totals, row);
    if (as_signed(of(totals, which)) == wanted) break;
  }
  return row;
}

SeriesTotals totals_of(const EventView& events, const Timeline& timeline, const Totals& start,
                       Series which) {
  SeriesTotals out;
  out.baseline_bytes = timeline.baseline_bytes[static_cast<std::size_t>(which)];
  out.start_bytes = as_signed(start[static_cast<std::size_t>(which)]);
  out.peak_bytes = out.end_bytes = out.baseline_bytes;
  if (timeline.levels.empty()) return out;
  const auto& level = timeline.levels.front();
  out.end_bytes = level.back().of(which).last_bytes;
  const auto highest = std::ranges::max_element(
      level, {}, [&](const TimelineBucket& bucket) { return bucket.of(which).max_bytes; });
  if (highest->of(which).max_bytes <= out.baseline_bytes) return out;
  out.peak_bytes = highest->of(which).max_bytes;
  const std::int64_t before =
      highest == level.begin() ? out.baseline_bytes : (highest - 1)->of(which).last_bytes;
  const std::size_t event = event_of_maximum(events, *highest, which, before);
  out.peak_event = event;
  if (events.time_ns[event] != kNoTime) out.peak_time_ns = events.time_ns[event];
  return out;
}

void add_times(const EventView& events, DeviceReport& out) {
  const auto is_known = [](std::int64_t time_ns) { return time_ns != kNoTime; };
  const auto* const end = events.time_ns + events.count;
  const auto* const first = std::find_if(events.time_ns, end, is_known);
  if (first == end) return;
  out.first_time_ns = *first;
  const auto* last = end - 1;
  while (!is_known(*last)) --last;
  out.last_time_ns = *last;
}

// Allocations that have a free in the trace but no alloc.
std::uint64_t frees_without_alloc(const model::Lifetimes& lifetimes) {
  const auto is_event = [](std::uint32_t event) {
    return event != kNone && event != model::kBeforeRecording;
  };
  std::uint64_t count = 0;
  for (std::size_t row = 0; row < lifetimes.baseline_count; ++row) {
    const bool is_freed =
        is_event(lifetimes.free_requested[row]) || is_event(lifetimes.free_completed[row]);
    count += is_freed ? 1 : 0;
  }
  return count;
}

DeviceReport report_on(const Trace& trace, const DeviceTrace& device, base::Progress& progress) {
  DeviceReport out;
  out.device = device.device.ordinal;
  out.device_type = name_of(device.device.type);
  out.events = device.events.size();
  out.history = model::to_string(device.history);
  out.frees_without_alloc = frees_without_alloc(device.lifetimes);
  const EventView events = view_of(device);
  add_times(events, out);

  Totals sum{};
  auto level = finest_level(events, sum, progress);
  Totals baseline = baseline_of(trace, device, sum, out);
  std::ranges::transform(baseline, out.timeline.baseline_bytes.begin(), as_signed);
  if (!level.empty()) {
    lift(level, baseline);
    out.timeline.levels.push_back(std::move(level));
    add_coarser_levels(out.timeline);
  }
  Totals start = baseline;
  const std::int64_t start_event = model::start_of_recording(device);
  for (std::int64_t row = 0; row <= start_event; ++row) {
    events.apply_to(start, static_cast<std::size_t>(row));
  }
  // Without segments in the file, it is unknown whether reserved bytes are complete.
  if (device.has_final_state && device.segment_count > 0 && !trace.has_made_up_segments) {
    out.active_above_reserved_bytes = active_above_reserved(events, out.timeline);
  }
  const auto totals = [&](Series which) { return totals_of(events, out.timeline, start, which); };
  out.requested_allocated = totals(Series::kRequestedAllocated);
  out.requested_active = totals(Series::kRequestedActive);
  out.reserved = totals(Series::kReserved);
  if (device.has_block_sizes) out.allocated = totals(Series::kAllocatedRounded);
  if (const auto messages = trace.messages_about(device.device); !messages.empty()) {
    // A message counts blocks, not requests.
    out.requested_allocated.is_known = out.requested_active.is_known = false;
    out.reserved.is_known = messages.back()->reserved_bytes.has_value();
    if (messages.back()->allocated_bytes) out.allocated = totals(Series::kAllocatedRounded);
  }
  if (device.allocated_before_bytes) {
    // Kineto's running totals count blocks, not requests.
    const auto which =
        device.has_block_sizes ? Series::kAllocatedRounded : Series::kRequestedAllocated;
    const std::int64_t end_bytes = as_signed(of(baseline, which) + of(sum, which));
    out.allocated_bytes_end = static_cast<std::uint64_t>(std::max<std::int64_t>(end_bytes, 0));
  }
  return out;
}

class TimelinePass final : public Pass {
 public:
  const char* name() const override { return "timeline"; }
  OptionSet uses() const override { return OptionSet::kNone; }
  void clear(report::Report& report) const override { report.devices.clear(); }
  Status run(PassContext& context) const override {
    context.report.devices.clear();
    for (const DeviceTrace& device : context.trace.devices) {
      context.report.devices.push_back(report_on(context.trace, device, context.progress));
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<TimelinePass>(); }

}  // namespace plimsoll::analysis::timeline
