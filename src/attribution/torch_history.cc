#include "attribution/torch_history.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attribution/history_attribution.h"
#include "attribution/trace_copy.h"
#include "model/categories.h"
#include "model/trace_builder.h"

namespace plimsoll::attribution {
namespace {

using model::DeviceTrace;
using model::Event;
using model::kNone;
using model::Trace;

constexpr base::DiagnosticKind kTorchHistory{
    "torch_history", base::Severity::kInfo,
    "CUDA memory comes from torch's own allocator history, because the CUDA adapter was "
    "unavailable. Every block is there; its owner is inferred from the tensor in it, or else from "
    "the time. Tables count requested bytes."};
constexpr base::DiagnosticKind kUnattributed{
    "history_unattributed", base::Severity::kInfo,
    "Allocations of torch's own history that neither a tensor nor the time explains: they were "
    "made before the recording, or outside of what it can see. Their category is unknown."};

constexpr base::DiagnosticKind kNoOperators{
    "history_without_operators", base::Severity::kInfo,
    "Allocations whose layer and phase are known from the time, but not their operator, so "
    "temporary memory cannot be distinguished from retained memory. Their category is unknown."};

bool is_empty(const DeviceTrace& device) {
  return device.events.size() == 0 && device.segment_count == 0;
}

const DeviceTrace* find(const Trace& trace, model::Device device) {
  const auto found = std::ranges::find(trace.devices, device, &DeviceTrace::device);
  return found == trace.devices.end() ? nullptr : &*found;
}

// One event and, for an alloc, what is known in hindsight.
struct HistoryRow {
  Event event;
  model::Hindsight hindsight;
};

// The events of one device, passed to the builder in order, up to a given point.
class DeviceRows {
 public:
  DeviceRows(const DeviceTrace& device, TraceCopy& copy, model::TraceBuilder& builder)
      : device_(device), copy_(copy), builder_(builder) {}
  virtual ~DeviceRows() = default;
  DeviceRows(const DeviceRows&) = delete;
  DeviceRows& operator=(const DeviceRows&) = delete;

  const DeviceTrace& device() const { return device_; }
  // Adds the events up to a point: a number of the device's events in the recording, or a time.
  virtual void until(std::uint32_t recorded_events, std::int64_t time_ns) = 0;
  void rest() { rows_until(static_cast<std::uint32_t>(device_.events.size())); }

 protected:
  virtual HistoryRow row(std::uint32_t number) { return {copy_.event(device_, number), {}}; }
  void rows_until(std::uint32_t end) {
    for (; next_ < end; ++next_) add(row(next_));
  }
  void add(const HistoryRow& row) {
    if (row.event.action == model::Action::kAlloc) {
      builder_.add_alloc(device_.device, row.event, row.hindsight);
    } else {
      builder_.add_event(device_.device, row.event);
    }
  }

  const DeviceTrace& device_;
  TraceCopy& copy_;
  model::TraceBuilder& builder_;
  std::uint32_t next_ = 0;
};

class RecordedRows final : public DeviceRows {
 public:
  using DeviceRows::DeviceRows;
  void until(std::uint32_t recorded_events, std::int64_t) override { rows_until(recorded_events); }

 protected:
  HistoryRow row(std::uint32_t number) override {
    HistoryRow row = DeviceRows::row(number);
    if (row.event.action == model::Action::kAlloc) {
      row.hindsight = copy_.hindsight(device_, device_.lifetimes.born_at(number));
    }
    return row;
  }
};

class HistoryRows final : public DeviceRows {
 public:
  HistoryRows(const Trace& history, const DeviceTrace& device, TraceCopy& copy,
              TraceCopy& recorded_copy, const Timeline& timeline,
              std::vector<Attribution> attributions, model::TraceBuilder& builder)
      : DeviceRows(device, copy, builder),
        history_(history),
        recorded_copy_(recorded_copy),
        timeline_(timeline),
        attributions_(std::move(attributions)) {
    if (device.history != model::History::kTruncated) adopt_baseline();
  }

  void until(std::uint32_t, std::int64_t time_ns) override {
    std::uint32_t end = next_;
    while (end < device_.events.size() && time_of(end) <= time_ns) ++end;
    if (end > next_) rows_until(end);
  }
  // A truncated history reports the memory that was live at its first event there, not earlier.
  void finish() {
    if (!is_adopted_) adopt_baseline();
    rest();
  }

 protected:
  HistoryRow row(std::uint32_t number) override {
    if (!is_adopted_) adopt_baseline();
    HistoryRow row = DeviceRows::row(number);
    if (row.event.action == model::Action::kAlloc) {
      attribute(row, attributions_[device_.lifetimes.born_at(number)]);
    } else if (row.event.action == model::Action::kOom) {
      report_point(row.event);
    }
    return row;
  }

 private:
  std::int64_t time_of(std::uint32_t event) const { return device_.events.time_ns[event]; }

  // Memory live before the first event is reported as adopted, as in a recording.
  void adopt_baseline() {
    is_adopted_ = true;
    const model::Lifetimes& lifetimes = device_.lifetimes;
    for (std::uint32_t row = 0; row < lifetimes.baseline_count; ++row) {
      HistoryRow adopted;
      Event& event = adopted.event;
      event.action = model::Action::kAlloc;
      event.address = history_.address(device_, row);
      event.size_bytes = history_.size_bytes(device_, row);
      event.time_ns = device_.events.size() > 0 ? time_of(0) : model::kNoTime;
      event.stream = copy_.stream(history_.stream(device_, row));
      event.stack = copy_.stack(history_.stack(device_, row));
      attribute(adopted, attributions_[row]);
      model::LifetimeFlags& flags = adopted.hindsight.flags;
      flags = flags | model::LifetimeFlags::kAdopted;
      add(adopted);
      if (lifetimes.free_requested[row] != model::kBeforeRecording) continue;
      event.action = model::Action::kFreeRequested;
      add(adopted);
    }
  }

  void attribute(HistoryRow& row, const Attribution& reported) {
    const bool is_known = !reported.category.empty();
    row.hindsight.category =
        builder_.strings().intern(is_known ? reported.category : model::kUnknownCategory);
    row.hindsight.tensor = recorded_copy_.tensor(reported.tensor);
    row.hindsight.flags = reported.flags;
    Event& event = row.event;
    event.layer = recorded_copy_.text(reported.site.layer);
    event.op = recorded_copy_.text(reported.site.op);
    event.inner_op = recorded_copy_.text(reported.site.inner_op);
    event.forward_op = recorded_copy_.text(reported.site.forward_op);
    event.phase = reported.site.phase;
    event.autograd = reported.site.autograd;
    if (event.stack.value <= model::kEmptyStack.value) {
      event.stack = recorded_copy_.stack(reported.site.stack);
    }
  }
  void report_point(Event& event) {
    const std::size_t at = timeline_.before(event.time_ns);
    if (at == Timeline::kNothing) return;
    event.layer = recorded_copy_.text(timeline_[at].layer);
    event.op = event.inner_op = recorded_copy_.text(timeline_[at].op);
    event.phase = timeline_[at].phase;
  }

  const Trace& history_;
  TraceCopy& recorded_copy_;
  const Timeline& timeline_;
  const std::vector<Attribution> attributions_;
  bool is_adopted_ = false;
};

using HistoryOfDevices = std::vector<std::unique_ptr<DeviceRows>>;

// Marks and the driver's readings, each after the events that precede it.
void report_points(const Trace& recorded, TraceCopy& copy, const HistoryOfDevices& rows,
                   model::TraceBuilder& builder) {
  auto reading = recorded.readings.begin();
  const auto report_readings = [&](std::int64_t until_ns) {
    for (; reading != recorded.readings.end() && reading->time_ns <= until_ns; ++reading) {
      for (const auto& each : rows) {
        if (each->device().device == reading->device)
          each->until(reading->events_before, reading->time_ns);
      }
      builder.add_reading(*reading);
    }
  };
  for (std::size_t row = 0; row < recorded.marks.size(); ++row) {
    model::Mark mark = recorded.marks[row];
    report_readings(mark.time_ns);
    for (const auto& each : rows) {
      const auto& mark_events = each->device().mark_events;  // a history has none
      each->until(row < mark_events.size() ? mark_events[row] : 0, mark.time_ns);
    }
    mark.name = copy.text(mark.name);
    builder.add_mark(mark);
  }
  report_readings(std::numeric_limits<std::int64_t>::max());
}

void report_counts(const DeviceTrace& device, const std::vector<Attribution>& attributions,
                   base::Diagnostics& diagnostics) {
  std::array<std::uint64_t, 3> counts{};
  for (const Attribution& each : attributions) ++counts[static_cast<std::size_t>(each.how)];
  const auto count = [&](Attribution::How how) { return counts[static_cast<std::size_t>(how)]; };
  diagnostics.add(kTorchHistory, 1,
                  to_string(device.device) + ": " +
                      std::to_string(count(Attribution::How::kByTensor)) +
                      " allocations known from their tensors, " +
                      std::to_string(count(Attribution::How::kByTime)) + " from the time");
  diagnostics.add(kUnattributed, count(Attribution::How::kNot), to_string(device.device));
  const auto is_undecided = [](const Attribution& each) {
    return each.how == Attribution::How::kByTime && each.category.empty();
  };
  diagnostics.add(kNoOperators,
                  static_cast<std::uint64_t>(std::ranges::count_if(attributions, is_undecided)),
                  to_string(device.device));
}

}  // namespace

Result<Trace> join_torch_history(const Trace& recorded, const Trace& history,
                                 const base::Column<readers::ThreadActivity>& activities,
                                 base::Diagnostics& diagnostics, base::Progress& progress) {
  model::TraceBuilder builder(diagnostics);
  TraceCopy recorded_copy(recorded, builder);
  TraceCopy history_copy(history, builder);
  const Timeline timeline(recorded, activities);
  HistoryOfDevices rows;
  std::vector<HistoryRows*> history_rows;

  for (const DeviceTrace& device : recorded.devices) {
    const DeviceTrace* const reported = find(history, device.device);
    if (reported != nullptr && !is_empty(*reported)) continue;
    recorded_copy.final_state(device);
    if (device.allocated_before_bytes && device.reserved_before_bytes) {
      builder.set_before(device.device, *device.allocated_before_bytes,
                         *device.reserved_before_bytes);
    }
    rows.push_back(std::make_unique<RecordedRows>(device, recorded_copy, builder));
  }
  for (const DeviceTrace& device : history.devices) {
    if (is_empty(device)) continue;
    std::vector<Attribution> attributions =
        attribute_history(history, device, recorded, find(recorded, device.device), timeline);
    report_counts(device, attributions, diagnostics);
    history_copy.final_state(device);
    auto reported = std::make_unique<HistoryRows>(history, device, history_copy, recorded_copy,
                                                  timeline, std::move(attributions), builder);
    history_rows.push_back(reported.get());
    rows.push_back(std::move(reported));
    if (progress.interrupted()) return make_error(ErrorCode::kInterrupted, "stopped while joining");
  }
  report_points(recorded, recorded_copy, rows, builder);
  for (HistoryRows* const device : history_rows) device->finish();
  for (const auto& device : rows) device->rest();

  if (recorded.rank) builder.set_rank(*recorded.rank);
  if (recorded.has_native_lines) builder.native_lines_known();
  if (recorded.has_layer_calls) builder.layer_calls_known();
  if (recorded.has_collections) builder.collections_known();
  if (recorded.has_uses) builder.uses_known();
  builder.set_started(recorded.started_ns);
  recorded_copy.settings();
  recorded_copy.program();
  history_copy.settings();
  history_copy.annotations();
  return builder.finish(recorded.format, progress);
}

}  // namespace plimsoll::attribution
