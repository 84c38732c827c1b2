// The facts that a report states about a device, apart from its tables: totals, fragmentation,
// failures. Text from the file is made printable.
#pragma once

#include <string>
#include <vector>

#include "report/device_report.h"

namespace plimsoll::exporters {

// "9,153 events in 2.3 s"; "no events, only the state at the end".
std::string events_text(const report::DeviceReport& device);

// A row of totals, as text. Without events only the end is known, and the other texts are empty.
struct TotalsRow {
  std::string name;  // "requested", "allocated", "reserved", ...
  std::string start;
  std::string peak;
  std::string end;
  std::string reached_at;  // "event 120 of 9,153 (0.9 ms)"
};
std::vector<TotalsRow> totals_rows(const report::DeviceReport& device);

// Why start and peak are unknown; empty if they are known.
std::string disagreement_text(const report::DeviceReport& device);

struct Fact {
  std::string label;  // "stranded"; empty: continues the previous fact
  std::string text;
};
inline constexpr const char* kOnTheDevice = "on the device";  // the users of the whole device
// Fragmentation at the end, each out-of-memory event, the use of the whole device, the process.
std::vector<Fact> facts_of(const report::DeviceReport& device);

}  // namespace plimsoll::exporters
