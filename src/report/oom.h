// Out-of-memory events: the facts about each, and the state of the device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "report/fragmentation.h"
#include "report/tables.h"

namespace plimsoll::report {

struct Oom {
  std::uint64_t event = 0;
  std::optional<std::int64_t> time_ns;
  std::uint64_t requested_bytes = 0;
  std::uint64_t device_free_bytes = 0;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"event", &Oom::event, "Number of the event on its device."},
        Field{"time_ns", &Oom::time_ns, "Time of that event; null if unknown."},
        Field{"requested_bytes", &Oom::requested_bytes, "Requested bytes, after rounding."},
        Field{"device_free_bytes", &Oom::device_free_bytes,
              "Free bytes of the device according to the driver."}};
  }
};

// The same events in the same order, with our analysis.
struct OomDetails {
  std::uint64_t event = 0;
  std::optional<std::int64_t> time_ns;
  std::uint64_t requested_bytes = 0;
  std::uint64_t device_free_bytes = 0;
  std::optional<std::uint64_t> device_total_bytes;
  std::optional<std::uint64_t> limit_bytes;  // the most the process may hold
  std::string line;                          // the line that requested it
  std::int64_t requested_allocated_bytes = 0;
  std::int64_t requested_active_bytes = 0;
  std::int64_t reserved_bytes = 0;
  std::uint64_t largest_free_bytes = 0;    // largest gap in the segments at that point
  std::uint64_t largest_usable_bytes = 0;  // largest gap that may serve the request
  std::uint64_t stranded_bytes = 0;        // free in pinned segments, and unusable for the request
  std::uint64_t grown_bytes = 0;           // part of the live bytes due to lines that grow at every
                                           // step
  bool is_limited = false;  // the driver had enough free memory, and the request failed anyway
  std::string cause;        // one of the classes in cause.h
  std::vector<GroupRow> top_lines;  // what filled the device at that point
  std::vector<PinningLine> pinning_lines;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"event", &OomDetails::event, "Number of the event on its device."},
        Field{"time_ns", &OomDetails::time_ns, "Time of that event; null if unknown."},
        Field{"requested_bytes", &OomDetails::requested_bytes, "Requested bytes, after rounding."},
        Field{"device_free_bytes", &OomDetails::device_free_bytes,
              "Free bytes of the device according to the driver."},
        Field{"device_total_bytes", &OomDetails::device_total_bytes,
              "Capacity of the device; null if not recorded."},
        Field{"limit_bytes", &OomDetails::limit_bytes,
              "Limit of the process (set_per_process_memory_fraction). Null if not recorded; the "
              "capacity of the device if there is no limit."},
        Field{"line", &OomDetails::line, "Line that requested the memory."},
        Field{"requested_allocated_bytes", &OomDetails::requested_allocated_bytes,
              "Requested bytes live at that event, counted to free_requested."},
        Field{"requested_active_bytes", &OomDetails::requested_active_bytes,
              "Requested bytes live at that event, counted to free_completed."},
        Field{"reserved_bytes", &OomDetails::reserved_bytes, "Reserved bytes at that event."},
        Field{"largest_free_bytes", &OomDetails::largest_free_bytes,
              "Largest free block in a segment at that event."},
        Field{"largest_usable_bytes", &OomDetails::largest_usable_bytes,
              "Largest free block of the request's stream, pool and segment type at that event."},
        Field{"stranded_bytes", &OomDetails::stranded_bytes,
              "Pinned bytes that could not serve the request: too small, or of another stream, "
              "pool or segment type."},
        Field{"grown_bytes", &OomDetails::grown_bytes,
              "Bytes live at that event that belong to lines growing at every step."},
        Field{"is_limited", &OomDetails::is_limited,
              "True if the driver had enough free memory: a limit of the process made the request "
              "fail."},
        Field{"cause", &OomDetails::cause,
              "one_large_request, fragmentation, steady_growth, process_limit or too_big; empty "
              "beyond the first 200 of a device, which are not examined."},
        Field{"top_lines", &OomDetails::top_lines,
              "Lines that used the most memory at that event, in the unit of the tables."},
        Field{"pinning_lines", &OomDetails::pinning_lines,
              "The lines that pin the stranded bytes."}};
  }
};

}  // namespace plimsoll::report
