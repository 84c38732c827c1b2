// Columns of a chart. Each column shows a point in time that occurred: of the events in its span,
// the first after which the most bytes are live. Heights are therefore bytes of a real live set,
// never averages; and since the point of a column is the point of one of its two halves, zooming
// never moves, adds or loses a peak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/trace.h"
#include "tiles/axis.h"

namespace plimsoll::tiles {

// The totals before the first event, which the report's timeline rolls back from the final state.
struct Baseline {
  std::int64_t live_bytes = 0;      // as the tables count them (model/live_set.h)
  std::int64_t reserved_bytes = 0;  // 0 on a device without a caching allocator
};

struct Column {
  std::uint32_t first_event = 0;  // the events in the span: [first_event, end_event)
  std::uint32_t end_event = 0;
  // The point: right after this event, or model::kBeforeFirst. A column without events shows the
  // state at its beginning.
  std::int64_t point = -1;
  std::int64_t live_bytes = 0;      // at the point
  std::int64_t reserved_bytes = 0;  // at the point
  std::int64_t lowest_bytes = 0;    // the least live bytes after any event of the span
  std::int64_t lowest_point = -1;   // the first such event
};

// `count` columns of equal width over [begin, end) of the axis, in one pass over the events.
std::vector<Column> columns(const model::DeviceTrace& device, const Axis& axis,
                            const Baseline& baseline, double begin, double end, std::size_t count);

std::vector<std::int64_t> points_of(const std::vector<Column>& columns);

}  // namespace plimsoll::tiles
