// DeviceView: what the page shows of one device, computed once: the columns of its chart with their
// bands, and the same groups at every column for the tables that follow the selected point.
#pragma once

#include <cstddef>
#include <cstdint>
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

// The groups of a dimension at every column, and their paints.
struct BandTable {
  model::Dimension by = model::Dimension::kCategory;
  tiles::Bands bands;
  std::vector<page::Paint> paints;
};

struct DeviceView {
  const ExportInput& input;
  const model::DeviceTrace& device;
  const report::DeviceReport& report;
  std::size_t number = 0;                      // of the device on the page, for ids
  const report::PointInTime* point = nullptr;  // of the tables; null: there is none
  charts::TimelineData over_time = {};         // kWideColumns columns; none if there are no events
  std::size_t chosen = 0;                      // the column that contains the point
  // By category, layer, line, operator and tensor, as far as these are known. The last band is
  // memory that is in the totals but not in the file, if there is any.
  std::vector<BandTable> tables = {};

  const std::vector<tiles::Column>& columns() const { return over_time.columns; }
  const BandTable* table(model::Dimension by) const;
  // Of a group: that of its band, which is the paint of the category that fills most of it. Without
  // categories, the chart's bands have their paints in the chart.
  page::Paint paint_of(model::Dimension by, const std::string& key) const;
};

// What the tables of a column sum to: the running total; if the file contradicts itself, so that
// the total is less than the live set, the live set.
std::int64_t shown_bytes(const charts::TimelineData& data, std::size_t column);

// The name of memory older than the recording that is in the totals but not in the file.
inline constexpr const char* kNotInFile = "[allocated before the recording, not in the file]";

inline constexpr std::size_t kWideColumns = 512;
// The others have coarser charts in which no point can be selected, so that a page stays small.
inline constexpr std::size_t kDevicesWithDetails = 2;

DeviceView make_view(const ExportInput& input, std::size_t device, std::size_t number);

}  // namespace plimsoll::exporters::html
