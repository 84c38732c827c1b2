// The totals of one device. Baselines are rolled back from the final segments; signed, because a
// file whose events and segments disagree can roll back below zero (a diagnostic says so).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "report/device_bar.h"
#include "report/fragmentation.h"
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

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"baseline_bytes", &SeriesTotals::baseline_bytes, "Before the device's first event."},
        Field{"start_bytes", &SeriesTotals::start_bytes,
              "When the recording began: after the device's first events, as long as they state "
              "memory that is older than the recording; else the baseline."},
        Field{"peak_bytes", &SeriesTotals::peak_bytes,
              "Maximum over the baseline and after each event."},
        Field{"peak_event", &SeriesTotals::peak_event,
              "First event of the device after which the maximum holds; null: the baseline is the "
              "maximum."},
        Field{"peak_time_ns", &SeriesTotals::peak_time_ns, "Time of that event; null if unknown."},
        Field{"end_bytes", &SeriesTotals::end_bytes, "After the device's last event."}};
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
  std::optional<SeriesTotals> allocated;  // if the events have the sizes of blocks
  std::uint64_t allocated_bytes_end = 0;
  std::uint64_t segments = 0;
  std::uint64_t blocks = 0;
  std::uint64_t blocks_allocated = 0;
  std::uint64_t frees_without_alloc = 0;
  std::optional<std::int64_t> first_time_ns;
  std::optional<std::int64_t> last_time_ns;
  Fragmentation fragmentation;
  std::vector<Oom> ooms;
  std::vector<OomDetails> oom_details;
  std::vector<BarReport> bars;
  Timeline timeline;  // not in the JSON of the report: the timeline exporters carry it

  // What the tables of the device count: allocated bytes where they are known.
  const SeriesTotals& held() const { return allocated ? *allocated : requested_active; }

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"device", &DeviceReport::device,
              "Ordinal; -1 for the CPU, -2 for pinned host memory."},
        Field{"device_type", &DeviceReport::device_type, "cuda, hip, cpu, ..."},
        Field{"events", &DeviceReport::events, "Events recorded on this device."},
        Field{"history", &DeviceReport::history, "complete, truncated (the ring wrapped) or none."},
        Field{"requested_allocated", &DeviceReport::requested_allocated,
              "Requested bytes from alloc to free_requested."},
        Field{"requested_active", &DeviceReport::requested_active,
              "Requested bytes from alloc to free_completed."},
        Field{"reserved", &DeviceReport::reserved, "Segment bytes held from the driver."},
        Field{"allocated", &DeviceReport::allocated,
              "Bytes of the blocks in use, from alloc to free_requested, which is "
              "torch.cuda.memory_allocated(); null where the events do not tell them."},
        Field{"allocated_bytes_end", &DeviceReport::allocated_bytes_end,
              "Sizes of the allocated blocks at the end, after rounding."},
        Field{"segments", &DeviceReport::segments, "Segments at the end."},
        Field{"blocks", &DeviceReport::blocks, "Blocks at the end, in any state."},
        Field{"blocks_allocated", &DeviceReport::blocks_allocated,
              "Blocks in state active_allocated."},
        Field{"frees_without_alloc", &DeviceReport::frees_without_alloc,
              "Allocations freed in the trace whose alloc is not in it."},
        Field{"first_time_ns", &DeviceReport::first_time_ns,
              "Time of the first event; null if unknown."},
        Field{"last_time_ns", &DeviceReport::last_time_ns,
              "Time of the last event; null if unknown."},
        Field{"fragmentation", &DeviceReport::fragmentation,
              "Where reserved bytes are not allocated."},
        Field{"ooms", &DeviceReport::ooms, "Each time the device ran out of memory."},
        Field{"oom_details", &DeviceReport::oom_details,
              "The same, with what the device looked like and why it ran out."},
        Field{
            "bars", &DeviceReport::bars,
            "Who held the whole device, all processes and the driver, when it was fullest and when "
            "it ran out; empty where the recording does not tell."}};
  }
};

}  // namespace plimsoll::report
