// The totals of one device. Baselines are computed backwards from the final segments. They are
// signed, because a file whose events and segments disagree can lead to values below zero (a
// diagnostic reports this).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "report/device_bar.h"
#include "report/fragmentation.h"
#include "report/last_use.h"
#include "report/oom.h"
#include "report/timeline.h"

namespace plimsoll::report {

struct SeriesTotals {
  std::int64_t baseline_bytes = 0;
  std::int64_t peak_bytes = 0;
  std::optional<std::uint64_t> peak_event;
  std::optional<std::int64_t> peak_time_ns;
  std::int64_t end_bytes = 0;
  std::int64_t start_bytes = 0;
  bool is_known = true;  // false: the input does not state them

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"baseline_bytes", &SeriesTotals::baseline_bytes,
              "Bytes before the first event of the device."},
        Field{"start_bytes", &SeriesTotals::start_bytes,
              "Bytes when the recording began: after the first events, if they list memory older "
              "than the recording; else the baseline."},
        Field{"peak_bytes", &SeriesTotals::peak_bytes,
              "Maximum of the baseline and of the bytes after each event."},
        Field{"peak_event", &SeriesTotals::peak_event,
              "First event of the device after which the peak was reached; null: the baseline is "
              "the peak."},
        Field{"peak_time_ns", &SeriesTotals::peak_time_ns, "Time of that event; null if unknown."},
        Field{"end_bytes", &SeriesTotals::end_bytes, "Bytes after the last event of the device."});
  }
};

struct DeviceReport {
  std::int32_t device = 0;
  std::string device_type;
  std::uint64_t events = 0;
  std::string history;
  SeriesTotals requested_allocated;
  SeriesTotals requested_active;
  SeriesTotals reserved;
  std::optional<SeriesTotals> allocated;  // if the events have block sizes
  std::uint64_t allocated_bytes_end = 0;
  std::uint64_t segments = 0;
  std::uint64_t blocks = 0;
  std::uint64_t blocks_allocated = 0;
  std::uint64_t frees_without_alloc = 0;
  std::uint64_t active_above_reserved_bytes = 0;
  std::optional<std::int64_t> first_time_ns;
  std::optional<std::int64_t> last_time_ns;
  Fragmentation fragmentation;
  std::vector<Oom> ooms;
  std::vector<OomDetails> oom_details;
  std::vector<DeviceBarReport> bars;
  std::optional<std::uint64_t> process_start_bytes;
  std::optional<std::uint64_t> process_end_bytes;
  std::optional<std::uint64_t> process_highest_bytes;
  std::optional<std::uint64_t> process_free_heap_bytes;
  std::optional<std::uint64_t> process_warm_bytes;
  std::optional<std::uint64_t> process_growth_bytes;
  bool is_process_growing = false;
  std::optional<LastUse> last_use;
  Timeline timeline;  // not in the report's JSON: the timeline exporters write it

  // How far events and segments contradict each other: the largest amount by which a total is below
  // zero or active bytes exceed reserved bytes. If not 0, start and peak are unknown.
  std::uint64_t disagreement_bytes() const;
  // Whether the disagreement is so large that the peak is meaningless. A smaller one comes from a
  // race between the events and the segments of a snapshot.
  bool has_unknown_peak() const;

  // The series that the device's tables count: allocated bytes if known, else requested.
  const SeriesTotals& live_totals() const { return allocated ? *allocated : requested_active; }

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &DeviceReport::device,
              "Device index; -1 for the CPU, -2 for pinned host memory."},
        Field{"device_type", &DeviceReport::device_type, "Type of the device: cuda, hip, cpu, ..."},
        Field{"events", &DeviceReport::events, "Number of events recorded on the device."},
        Field{"history", &DeviceReport::history,
              "complete, truncated (the recorder's ring wrapped) or none."},
        Field{
            "requested_allocated", &DeviceReport::requested_allocated,
            "Requested bytes from alloc to free_requested. This, requested_active and reserved are "
            "null if the input, such as an out-of-memory message, does not state them."},
        Field{"requested_active", &DeviceReport::requested_active,
              "Requested bytes from alloc to free_completed."},
        Field{"reserved", &DeviceReport::reserved,
              "Bytes of the segments obtained from the driver."},
        Field{"allocated", &DeviceReport::allocated,
              "Bytes of the allocated blocks, from alloc to free_requested: "
              "torch.cuda.memory_allocated(). Null if the events have no block sizes."},
        Field{"allocated_bytes_end", &DeviceReport::allocated_bytes_end,
              "Bytes of the allocated blocks at the end, after rounding."},
        Field{"segments", &DeviceReport::segments, "Number of segments at the end."},
        Field{"blocks", &DeviceReport::blocks, "Number of blocks at the end, in any state."},
        Field{"blocks_allocated", &DeviceReport::blocks_allocated,
              "Number of blocks at the end in state active_allocated."},
        Field{"frees_without_alloc", &DeviceReport::frees_without_alloc,
              "Number of frees whose allocation is not in the trace."},
        Field{"active_above_reserved_bytes", &DeviceReport::active_above_reserved_bytes,
              "The largest excess of active over reserved bytes after an event. If not 0, events "
              "are missing, and start and peak are unknown."},
        Field{"first_time_ns", &DeviceReport::first_time_ns,
              "Time of the first event; null if unknown."},
        Field{"last_time_ns", &DeviceReport::last_time_ns,
              "Time of the last event; null if unknown."},
        Field{"fragmentation", &DeviceReport::fragmentation,
              "Reserved bytes that are not allocated, and what pins them."},
        Field{"ooms", &DeviceReport::ooms, "Out-of-memory events of the device."},
        Field{"oom_details", &DeviceReport::oom_details,
              "The same events, with the state of the device and the cause."},
        Field{"bars", &DeviceReport::bars,
              "Memory of the whole device by user (processes, driver), at its highest use and at "
              "its last out-of-memory event; empty if not recorded."},
        Field{"process_start_bytes", &DeviceReport::process_start_bytes,
              "Of the CPU: resident memory of the process when the recording began, tensors "
              "included; null if not recorded."},
        Field{"process_end_bytes", &DeviceReport::process_end_bytes,
              "The same when the recording ended."},
        Field{"process_highest_bytes", &DeviceReport::process_highest_bytes,
              "The most that the process has had resident, also before the recording."},
        Field{"process_free_heap_bytes", &DeviceReport::process_free_heap_bytes,
              "Freed memory of the process that the C library had not returned at the end."},
        Field{"process_warm_bytes", &DeviceReport::process_warm_bytes,
              "The same when the third step had ended; null without steps."},
        Field{"process_growth_bytes", &DeviceReport::process_growth_bytes,
              "Growth of the highest since then, less that of the peak of the tensors and of the "
              "free "
              "heap; null if there was none."},
        Field{"is_process_growing", &DeviceReport::is_process_growing,
              "Whether it went on from step to step."},
        Field{"last_use", &DeviceReport::last_use,
              "What is live at the peak and no operator uses again; null if uses of memory are not "
              "recorded or the peak is unknown."});
  }
};

}  // namespace plimsoll::report
