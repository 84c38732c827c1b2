// DeviceView: what the page shows of one device, computed once: the columns of its chart with their
// bands, and the groups at every point in time that can be selected, for the tables that follow the
// selection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "charts/timeline.h"
#include "exporters/exporter.h"
#include "model/groupings.h"
#include "page/paint.h"
#include "report/device_report.h"
#include "report/tables.h"
#include "tiles/bands.h"

namespace plimsoll::exporters::html {

// A point in time that can be selected: the point of a column or of the tables, or a failure.
struct ViewPoint {
  std::int64_t event = 0;  // the state right after it, or model::kBeforeFirst
  double column = 0;       // its place on the axis of the widest chart
  std::int64_t bytes = 0;  // sum of the tables at this point
  std::int64_t reserved_bytes = 0;
  std::uint64_t unused_bytes = 0;  // not used again; only if Trace::has_uses
};

// The groups of a dimension at every point, and their paints.
struct BandTable {
  model::Dimension by = model::Dimension::kCategory;
  tiles::Bands bands;
  std::vector<page::Paint> paints;
};

// The parts of each line in the table by line: the lines inside the packages that it calls.
struct InnerTable {
  tiles::Bands bands;                 // names are inner lines
  std::vector<std::string> lines;     // by band: the calling line; empty: several lines
  std::vector<bool> are_in_packages;  // by band
};

struct DeviceView {
  const ExportInput& input;
  const model::DeviceTrace& device;
  const report::DeviceReport& report;
  std::size_t number = 0;                      // position of the device on the page, for ids
  const report::PointInTime* point = nullptr;  // point of the tables; null: none
  charts::TimelineData over_time = {};         // kWideColumns columns; none if there are no events
  std::vector<ViewPoint> points = {};          // by event; empty if there are no columns
  std::vector<std::size_t> of_column = {};     // by column: row in points
  std::size_t chosen = 0;                      // row of the tables' point in points
  // By category, layer, line, operator and tensor, as far as these are known. The last band of each
  // is memory that is in the totals but not in the file, if there is any.
  std::vector<BandTable> tables = {};
  InnerTable inside = {};  // without bands if no line calls a package

  const std::vector<tiles::Column>& columns() const { return over_time.columns; }
  const BandTable* table(model::Dimension by) const;
  // The row in `points`; nullopt if the point cannot be selected.
  std::optional<std::size_t> row_of(std::int64_t event) const;
  // The paint of the group's band: that of the category that fills most of it. Without categories,
  // a group has its paint in the chart.
  page::Paint paint_of(model::Dimension by, const std::string& key) const;
};

// The name of memory older than the recording that is in the totals but not in the file.
inline constexpr const char* kNotInFile = "[allocated before the recording, not in the file]";

inline constexpr std::size_t kWideColumns = 512;
// Other devices have coarser charts in which no point can be selected, so that a page stays small.
inline constexpr std::size_t kDevicesWithDetails = 2;

DeviceView make_view(const ExportInput& input, std::size_t device, std::size_t number);

}  // namespace plimsoll::exporters::html
