#include "tiles/columns.h"

#include <algorithm>

#include "model/event_signs.h"
#include "model/live_set.h"

namespace plimsoll::tiles {
namespace {

// The running totals of a device, event by event. Sums wrap: a hostile file may have any size.
class Walk {
 public:
  Walk(const model::DeviceTrace& device, const Baseline& baseline)
      : events_(device.events),
        counts_allocated_(model::default_liveness(device) == model::Liveness::kAllocated),
        live_(static_cast<std::uint64_t>(baseline.live_bytes)),
        reserved_(static_cast<std::uint64_t>(baseline.reserved_bytes)) {}

  void skip_to(std::uint32_t event) {
    for (; next_ < event; ++next_) apply(next_);
  }

  Column column(std::uint32_t end) {
    Column column;
    column.first_event = next_;
    column.end_event = end;
    if (next_ < end) apply(next_++);
    column.point = column.lowest_point = std::int64_t{next_} - 1;
    column.live_bytes = column.lowest_bytes = live();
    column.reserved_bytes = reserved();
    for (; next_ < end; ++next_) {
      apply(next_);
      if (live() > column.live_bytes) {
        column.live_bytes = live();
        column.reserved_bytes = reserved();
        column.point = next_;
      } else if (live() < column.lowest_bytes) {
        column.lowest_bytes = live();
        column.lowest_point = next_;
      }
    }
    return column;
  }

 private:
  void apply(std::uint32_t event) {
    const model::Signs& signs = model::kSigns[static_cast<std::size_t>(events_.action[event])];
    const std::uint64_t size = events_.size_bytes[event];
    live_ += counts_allocated_ ? signs.allocated * (size + events_.padding_bytes[event])
                               : signs.active * size;
    reserved_ += signs.reserved * size;
  }
  std::int64_t live() const { return static_cast<std::int64_t>(live_); }
  std::int64_t reserved() const { return static_cast<std::int64_t>(reserved_); }

  const model::Events& events_;
  const bool counts_allocated_;  // block sizes until free_requested
  std::uint64_t live_;
  std::uint64_t reserved_;
  std::uint32_t next_ = 0;
};

}  // namespace

std::vector<Column> columns(const model::DeviceTrace& device, const Axis& axis,
                            const Baseline& baseline, double begin, double end, std::size_t count) {
  std::vector<Column> columns;
  columns.reserve(count);
  Walk walk(device, baseline);
  std::uint32_t edge = axis.first_event(begin);
  walk.skip_to(edge);
  for (std::size_t i = 1; i <= count; ++i) {
    // The same quotient as for this edge in a finer division, so that columns nest exactly.
    const double part = static_cast<double>(i) / static_cast<double>(count);
    edge = std::max(edge, axis.first_event(i == count ? end : begin + (end - begin) * part));
    columns.push_back(walk.column(edge));
  }
  return columns;
}

std::vector<std::int64_t> points_of(const std::vector<Column>& columns) {
  std::vector<std::int64_t> points;
  points.reserve(columns.size());
  for (const Column& column : columns) points.push_back(column.point);
  return points;
}

}  // namespace plimsoll::tiles
