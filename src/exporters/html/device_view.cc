#include "exporters/html/device_view.h"

#include <algorithm>
#include <array>
#include <utility>

#include "exporters/point_text.h"
#include "model/live_set.h"

namespace plimsoll::exporters::html {
namespace {

using model::Dimension;
using page::Paint;

constexpr std::size_t kMostGroups = 20;  // of a dimension at the selected point; as in the tables

// The points at which the tables must name every large group: the selected one and the end.
std::vector<std::int64_t> important_points(const DeviceView& view) {
  std::vector<std::int64_t> points;
  if (!view.columns().empty())
    points = {view.columns()[view.chosen].point, view.columns().back().point};
  return points;
}

std::int64_t point_of(const DeviceView& view) {
  return view.point != nullptr && view.point->event ? static_cast<std::int64_t>(*view.point->event)
                                                    : model::kBeforeFirst;
}

std::vector<std::uint32_t> live_at_point(const DeviceView& view) {
  return model::live_set(view.device, model::held(view.device), point_of(view));
}

// The column whose span contains the event; the last one that begins by then.
std::size_t column_of(const std::vector<tiles::Column>& columns, std::int64_t event) {
  const auto after = std::ranges::find_if(columns, [&](const tiles::Column& column) {
    return std::int64_t{column.first_event} > event;
  });
  // Columns without events share their first event with the next column that has some.
  std::size_t at =
      after == columns.begin() ? 0 : static_cast<std::size_t>(after - columns.begin()) - 1;
  while (at > 0 && columns[at].first_event == columns[at].end_event &&
         std::int64_t{columns[at - 1].end_event} > event) {
    --at;
  }
  return at;
}

// The paint of the category that fills most of each group at the selected point; of groups that are
// not live there, over the whole recording.
std::vector<Paint> dominant_paints(const DeviceView& view, const tiles::Groups& groups,
                                   std::size_t group_count) {
  std::vector<Paint> paints(group_count, Paint::kOther);
  const auto categories =
      model::make_grouping(view.input.trace, view.device, view.input.lines, Dimension::kCategory);
  if (categories == nullptr) {
    for (const charts::GroupStyle& style : view.over_time.stack) {
      const std::string& name = view.over_time.bands.names[style.group];
      for (std::size_t group = 0; group < group_count; ++group) {
        if (groups.names[group] == name) paints[group] = style.paint;
      }
    }
    return paints;
  }
  // Sums of bytes by group and category; both are few.
  std::vector<std::vector<std::uint64_t>> sums(group_count);
  const auto add = [&](std::size_t row) {
    const std::uint32_t category = categories->group(row);
    auto& of_group = sums[groups.of[row]];
    if (of_group.size() <= category) of_group.resize(category + 1, 0);
    of_group[category] += view.input.trace.lifetime_bytes(view.device, row);
  };
  for (const std::uint32_t row : live_at_point(view)) add(row);
  std::vector<bool> is_live(group_count);
  for (std::size_t group = 0; group < group_count; ++group) is_live[group] = !sums[group].empty();
  for (std::size_t row = 0; row < groups.of.size(); ++row) {
    if (!is_live[groups.of[row]]) add(row);
  }
  for (std::size_t group = 0; group < group_count; ++group) {
    const auto most = std::ranges::max_element(sums[group]);
    if (most == sums[group].end()) continue;
    paints[group] = page::paint_of_category(
        categories->name(static_cast<std::uint32_t>(most - sums[group].begin())));
  }
  return paints;
}

void add_table(DeviceView& view, Dimension by) {
  const model::Trace& trace = view.input.trace;
  const auto grouping = model::make_grouping(trace, view.device, view.input.lines, by);
  if (grouping == nullptr) return;
  const std::vector<std::int64_t> points = tiles::points_of(view.columns());
  tiles::Groups groups =
      tiles::largest(trace, view.device, tiles::groups_of(*grouping, view.device), points,
                     important_points(view), kMostGroups);
  BandTable table;
  table.by = by;
  if (by == Dimension::kCategory) {
    for (const std::string& name : groups.names)
      table.paints.push_back(page::paint_of_category(name));
  } else {
    table.paints = dominant_paints(view, groups, groups.names.size());
  }
  table.bands = tiles::bands(trace, view.device, groups, points);
  view.tables.push_back(std::move(table));
}

// What the totals contain beyond the live set becomes a band of its own.
void add_not_in_file(BandTable& table, const std::vector<std::int64_t>& bytes) {
  if (std::ranges::none_of(bytes, [](std::int64_t each) { return each > 0; })) return;
  table.bands.names.emplace_back(kNotInFile);
  for (const std::int64_t each : bytes) {
    table.bands.bytes.push_back(static_cast<std::uint64_t>(std::max<std::int64_t>(0, each)));
  }
  table.bands.counts.resize(table.bands.counts.size() + bytes.size(), 0);
  table.paints.push_back(Paint::kUnknown);
}

}  // namespace

std::int64_t shown_bytes(const charts::TimelineData& data, std::size_t column) {
  const auto live = static_cast<std::uint64_t>(data.columns[column].live_bytes);
  const auto less =
      static_cast<std::uint64_t>(std::min<std::int64_t>(0, data.not_in_bands[column]));
  return static_cast<std::int64_t>(live - less);  // wraps: a hostile file may have any size
}

const BandTable* DeviceView::table(Dimension by) const {
  const auto found = std::ranges::find(tables, by, &BandTable::by);
  return found == tables.end() ? nullptr : &*found;
}

Paint DeviceView::paint_of(Dimension by, const std::string& key) const {
  const BandTable* const found = table(by);
  if (found == nullptr) return Paint::kOther;
  const auto name = std::ranges::find(found->bands.names, key);
  return name == found->bands.names.end()
             ? Paint::kOther
             : found->paints[static_cast<std::size_t>(name - found->bands.names.begin())];
}

DeviceView make_view(const ExportInput& input, std::size_t device, std::size_t number) {
  const model::Trace& trace = input.trace;
  DeviceView view{.input = input,
                  .device = trace.devices[device],
                  .report = input.report.devices[device],
                  .number = number};
  const auto points = rows_of(input.report.tables.points, view.report);
  if (!points.empty()) view.point = points.front();
  if (view.device.events.size() == 0) return view;
  view.over_time = charts::timeline_data(trace, view.device, view.report, input.lines,
                                         {.columns = kWideColumns});
  view.chosen = column_of(view.columns(), point_of(view));
  const bool has_categories = !rows_of(input.report.tables.by_category, view.report).empty();
  if (has_categories) add_table(view, Dimension::kCategory);
  for (const Dimension by :
       {Dimension::kLayer, Dimension::kLine, Dimension::kOperator, Dimension::kTensor}) {
    add_table(view, by);
  }
  for (BandTable& table : view.tables) add_not_in_file(table, view.over_time.not_in_bands);
  return view;
}

}  // namespace plimsoll::exporters::html
