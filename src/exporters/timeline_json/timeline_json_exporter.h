// The running totals of each device as columns, for charts: at most kPoints buckets per device,
// each with minimum, maximum and last value of each series, so that no peak is lost.
//
//   {"schema_version", "series": [names], "devices": [{"device", "device_type",
//     "baseline_bytes": {series: bytes}, "points": {"first_event": [...], "event_count": [...],
//     "time_ns": [... or null], series: {"min_bytes": [...], "max_bytes": [...], "last_bytes":
//     [...]}}}]}
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::timeline_json {

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::timeline_json
