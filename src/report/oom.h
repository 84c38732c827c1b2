// Out-of-memory events: the bare facts of each, and what the device looked like at it.
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
        Field{"event", &Oom::event, "Event of the device."},
        Field{"time_ns", &Oom::time_ns, "Its time; null if unknown."},
        Field{"requested_bytes", &Oom::requested_bytes, "What was asked for (after rounding)."},
        Field{"device_free_bytes", &Oom::device_free_bytes, "What the driver had left."}};
  }
};

// The same events in the same order, with what our analysis adds.
struct OomDetails {
  std::uint64_t event = 0;
  std::optional<std::int64_t> time_ns;
  std::uint64_t requested_bytes = 0;
  std::uint64_t device_free_bytes = 0;
  std::optional<std::uint64_t> device_total_bytes;
  std::optional<std::uint64_t> limit_bytes;  // the most the process may hold
  std::string line;                          // who asked
  std::int64_t requested_allocated_bytes = 0;
  std::int64_t requested_active_bytes = 0;
  std::int64_t reserved_bytes = 0;
  std::uint64_t largest_free_bytes = 0;    // inside the segments, at that moment
  std::uint64_t largest_usable_bytes = 0;  // of these, where the request may be served from
  std::uint64_t stranded_bytes = 0;        // free in pinned segments, and of no use to the request
  std::uint64_t grown_bytes = 0;           // live then because some line grows at every step
  bool is_limited = false;          // the driver had room, and the request failed all the same
  std::string cause;                // cause.h names them
  std::vector<GroupRow> top_lines;  // what filled the device at that moment
  std::vector<PinningLine> pinning_lines;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"event", &OomDetails::event, "Event of the device."},
        Field{"time_ns", &OomDetails::time_ns, "Its time; null if unknown."},
        Field{"requested_bytes", &OomDetails::requested_bytes,
              "What was asked for (after rounding)."},
        Field{"device_free_bytes", &OomDetails::device_free_bytes, "What the driver had left."},
        Field{"device_total_bytes", &OomDetails::device_total_bytes,
              "What the device has; null if not recorded."},
        Field{"limit_bytes", &OomDetails::limit_bytes,
              "The most the process may hold (set_per_process_memory_fraction); null if not "
              "recorded, the device's bytes if there is no limit."},
        Field{"line", &OomDetails::line, "Who asked."},
        Field{"requested_allocated_bytes", &OomDetails::requested_allocated_bytes,
              "Live then, to free_requested."},
        Field{"requested_active_bytes", &OomDetails::requested_active_bytes,
              "Live then, to free_completed."},
        Field{"reserved_bytes", &OomDetails::reserved_bytes, "Held from the driver then."},
        Field{"largest_free_bytes", &OomDetails::largest_free_bytes,
              "Largest gap in a segment then."},
        Field{"largest_usable_bytes", &OomDetails::largest_usable_bytes,
              "Largest gap of the request's stream, pool and segment type then."},
        Field{"stranded_bytes", &OomDetails::stranded_bytes,
              "Pinned bytes that could not serve the request: too small, or of another stream, "
              "pool or segment type."},
        Field{"grown_bytes", &OomDetails::grown_bytes,
              "Live then by lines that grow at every step."},
        Field{"is_limited", &OomDetails::is_limited,
              "The driver had room and the request failed: a limit of the process is in force."},
        Field{"cause", &OomDetails::cause,
              "one_large_request, fragmentation, steady_growth, process_limit or too_big; empty "
              "beyond the first 200 of a device, which are not examined."},
        Field{"top_lines", &OomDetails::top_lines,
              "What filled the device then, in the bytes that its tables count."},
        Field{"pinning_lines", &OomDetails::pinning_lines,
              "The lines that pin the stranded bytes."}};
  }
};

}  // namespace plimsoll::report
