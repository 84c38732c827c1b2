// Memory over time as stacked bands. Every column is a live set that occurred, to the byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "charts/chart.h"
#include "charts/grouping.h"
#include "model/groupings.h"
#include "model/trace.h"
#include "model/user_line.h"
#include "report/device_report.h"
#include "tiles/axis.h"
#include "tiles/bands.h"
#include "tiles/columns.h"

namespace plimsoll::charts {

struct TimelineQuestion {
  std::optional<model::Dimension> by = {};   // nullopt: the default
  std::optional<tiles::AxisKind> axis = {};  // nullopt: the best
  std::size_t columns = 880;
  std::size_t most_groups = 8;  // except for categories; the rest is one more group
};

// A part of the x axis, in columns (0 at the left edge).
struct AxisSpan {
  double begin = 0;
  double end = 0;
  std::string label;
};

struct TimelineData {
  tiles::AxisKind axis = tiles::AxisKind::kEvent;
  double end = 0;  // end of the axis
  model::Dimension by = model::Dimension::kCategory;
  std::vector<tiles::Column> columns;
  tiles::Bands bands;                      // at the points of the columns
  tiles::Bands unused;                     // the part not used again; no names if this is unknown
  std::vector<GroupStyle> stack;           // from the bottom up
  std::vector<std::int64_t> not_in_bands;  // by column: live bytes that no allocation explains
  std::size_t peak_column = 0;
  bool is_peak_known = true;  // false: events and segments in the file disagree
  std::string peak_place;     // "step 2", "event 2,026"
  struct Failure {
    std::uint64_t event = 0;
    double column = 0;
    std::uint64_t requested_bytes = 0;
  };
  std::vector<Failure> failures;
  std::vector<AxisSpan> steps;   // of a step axis
  std::vector<AxisSpan> phases;  // labels are names of phases; empty: unknown
  std::optional<std::uint64_t> limit_bytes;
  std::string limit_name;  // "device", "limit"
  bool is_truncated = false;

  double most_bytes() const;  // live, in any column
  std::uint64_t unused_bytes(std::size_t column) const;
};

// `report` is the report of the device. The grouping and the axis must be known. Columns without
// events at either end of the axis still show the state.
TimelineData timeline_data(const model::Trace& trace, const model::DeviceTrace& device,
                           const report::DeviceReport& report, const model::UserLines& lines,
                           const TimelineQuestion& question);

// Returns the same data with fewer columns; `columns` divides their number. Columns nest, so each
// shows the point of one of the columns that it replaces.
TimelineData coarser(const TimelineData& data, std::size_t columns);

Chart timeline(const TimelineData& data, const ChartOptions& options);

// The number of columns that a chart of this width shows, one for each pixel.
std::size_t timeline_columns(const ChartOptions& options);

}  // namespace plimsoll::charts
