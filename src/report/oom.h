// One out-of-memory event, and what the device looked like at it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "report/tables.h"

namespace plimsoll::report {

struct Oom {
  std::uint64_t event = 0;
  std::optional<std::int64_t> time_ns;
  std::uint64_t requested_bytes = 0;
  std::uint64_t device_free_bytes = 0;
  std::string line;  // who asked
  std::int64_t requested_allocated_bytes = 0;
  std::int64_t requested_active_bytes = 0;
  std::int64_t reserved_bytes = 0;
  std::uint64_t largest_free_bytes = 0;  // inside the segments, at that moment
  std::uint64_t stranded_bytes = 0;  // free in pinned segments, in pieces smaller than the request
  std::string cause;                 // one_large_request, fragmentation, steady_growth, too_big
  std::vector<GroupRow> top_lines;   // what filled the device at that moment
  std::vector<std::string> pinning_lines;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"event", &Oom::event, "Event of the device."},
        Field{"time_ns", &Oom::time_ns, "Its time; null if unknown."},
        Field{"requested_bytes", &Oom::requested_bytes, "What was asked for (after rounding)."},
        Field{"device_free_bytes", &Oom::device_free_bytes, "What the driver had left."},
        Field{"line", &Oom::line, "Who asked."},
        Field{"requested_allocated_bytes", &Oom::requested_allocated_bytes,
              "Live then, to free_requested."},
        Field{"requested_active_bytes", &Oom::requested_active_bytes,
              "Live then, to free_completed."},
        Field{"reserved_bytes", &Oom::reserved_bytes, "Held from the driver then."},
        Field{"largest_free_bytes", &Oom::largest_free_bytes, "Largest gap in a segment then."},
        Field{"stranded_bytes", &Oom::stranded_bytes,
              "Gaps smaller than the request, in pinned segments."},
        Field{"cause", &Oom::cause, "one_large_request, fragmentation, steady_growth or too_big."},
        Field{"top_lines", &Oom::top_lines, "What filled the device then."},
        Field{"pinning_lines", &Oom::pinning_lines, "Who pins the stranded bytes."}};
  }
};

}  // namespace plimsoll::report
