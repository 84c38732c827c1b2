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

// A point in time that can be selected: that of a column, that of the tables, or a failure.
struct ViewPoint {
  std::int64_t event = 0;  // right after it, or model::kBeforeFirst
  double column = 0;       // its place on the axis of the widest chart
  std::int64_t bytes = 0;  // what the tables sum to there
  std::int64_t reserved_bytes = 0;
};

// The groups of a dimension at every point, and their paints.
struct BandTable {
  model::Dimension by = model::Dimension::kCategory;
  tiles::Bands bands;
  std::vector<page::Paint> paints;
};

// Of the table by line: the parts of each line, by the line inside the packages that it calls.
struct InnerTable {
  tiles::Bands bands;                 // names are inner lines
  std::vector<std::string> lines;     // by band: the line that it is a part of; empty: of several
  std::vector<bool> are_in_packages;  // by band
};

struct DeviceView {
  const ExportInput& input;
  const model::DeviceTrace& device;
  const report::DeviceReport& report;
  std::size_t number = 0;                      // of the device on the page, for ids
  const report::PointInTime* point = nullptr;  // of the tables; null: there is none
  charts::TimelineData over_time = {};         // kWideColumns columns; none if there are no events
  std::vector<ViewPoint> points = {};          // by event; empty if there are no columns
  std::vector<std::size_t> of_column = {};     // by column: its point
  std::size_t chosen = 0;                      // the point of the tables
  // By category, layer, line, operator and tensor, as far as these are known. The last band is
  // memory that is in the totals but not in the file, if there is any.
  std::vector<BandTable> tables = {};
  InnerTable inside = {};  // no bands: no line calls a package

  const std::vector<tiles::Column>& columns() const { return over_time.columns; }
  const BandTable* table(model::Dimension by) const;
  // The row in `points`, if it can be selected.
  std::optional<std::size_t> row_of(std::int64_t event) const;
  // Of a group: that of its band, which is the paint of the category that fills most of it. Without
  // categories, the chart's bands have their paints in the chart.
  page::Paint paint_of(model::Dimension by, const std::string& key) const;
};

// The name of memory older than the recording that is in the totals but not in the file.
inline constexpr const char* kNotInFile = "[allocated before the recording, not in the file]";

inline constexpr std::size_t kWideColumns = 512;
// The others have coarser charts in which no point can be selected, so that a page stays small.
inline constexpr std::size_t kDevicesWithDetails = 2;

DeviceView make_view(const ExportInput& input, std::size_t device, std::size_t number);

}  // namespace plimsoll::exporters::html
