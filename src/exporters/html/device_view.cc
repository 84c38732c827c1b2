#include "exporters/html/device_view.h"

#include <algorithm>
#include <string>
#include <utility>

#include "exporters/point_text.h"
#include "model/group_names.h"
#include "model/inner_lines.h"
#include "model/live_allocations.h"
#include "model/live_set.h"

namespace plimsoll::exporters::html {
namespace {

using model::Dimension;
using page::Paint;

constexpr std::size_t kMostGroups = 20;  // of a dimension at the selected point; as in the tables

std::int64_t point_of(const DeviceView& view) {
  if (view.point == nullptr) return view.columns()[view.over_time.peak_column].point;
  return view.point->event ? static_cast<std::int64_t>(*view.point->event) : model::kBeforeFirst;
}

std::vector<std::uint32_t> live_at_point(const DeviceView& view) {
  return model::live_set(view.device, model::default_liveness(view.device), point_of(view));
}

// The events of the last kMostFailures failures.
std::vector<std::int64_t> failures_of(const DeviceView& view) {
  constexpr std::size_t kMostFailures = 16;
  std::vector<std::int64_t> events;
  const auto& failures = view.over_time.failures;
  for (std::size_t i = failures.size() - std::min(failures.size(), kMostFailures);
       i < failures.size(); ++i) {
    events.push_back(static_cast<std::int64_t>(failures[i].event));
  }
  return events;
}

// The points at which the tables must name every large group.
std::vector<std::int64_t> important_points(const DeviceView& view) {
  std::vector<std::int64_t> events = {point_of(view), view.columns().back().point,
                                      view.columns()[view.over_time.peak_column].point};
  if (!view.over_time.failures.empty()) {
    events.push_back(static_cast<std::int64_t>(view.over_time.failures.back().event));
  }
  return events;
}

// The state right after an event, which need not be the peak of its column. `axis` is the chart's.
ViewPoint point_at(const DeviceView& view, const tiles::Axis& axis, std::int64_t event) {
  const tiles::Baseline baseline = {view.report.live_totals().baseline_bytes,
                                    view.report.reserved.baseline_bytes};
  if (event < 0) return {event, 0, baseline.live_bytes, baseline.reserved_bytes};
  const tiles::Axis events(view.input.trace, view.device, tiles::AxisKind::kEvent);
  const auto at = static_cast<double>(event);
  const tiles::Column state = tiles::columns(view.device, events, baseline, at, at + 1, 1).front();
  const double column = axis.position(static_cast<std::uint32_t>(event)) / axis.end() *
                        static_cast<double>(view.columns().size());
  return {event, column, state.live_bytes, state.reserved_bytes};
}

void add_points(DeviceView& view) {
  for (std::size_t at = 0; at < view.columns().size(); ++at) {
    const tiles::Column& column = view.columns()[at];
    view.points.push_back(
        {column.point, static_cast<double>(at) + 0.5, column.live_bytes, column.reserved_bytes});
  }
  const tiles::Axis axis(view.input.trace, view.device, view.over_time.axis);
  std::vector<std::int64_t> others = failures_of(view);
  others.push_back(point_of(view));
  for (const std::int64_t event : others) {
    if (!view.row_of(event)) view.points.push_back(point_at(view, axis, event));
  }
  std::ranges::stable_sort(view.points, {}, &ViewPoint::event);
  std::size_t row = 0;
  for (const tiles::Column& column : view.columns()) {
    while (view.points[row].event != column.point) ++row;
    view.of_column.push_back(row);
    if (row + 1 < view.points.size() && view.points[row + 1].event == column.point) ++row;
  }
  view.chosen = *view.row_of(point_of(view));
}

// For each group, the paint of the category that fills most of it at the selected point, or over
// the whole recording if the group is not live there.
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
  // Sums of bytes by group and category. There are few of both.
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

std::vector<std::int64_t> events_of(const DeviceView& view) {
  std::vector<std::int64_t> events;
  for (const ViewPoint& point : view.points) events.push_back(point.event);
  return events;
}

void add_table(DeviceView& view, Dimension by) {
  const model::Trace& trace = view.input.trace;
  const auto grouping = model::make_grouping(trace, view.device, view.input.lines, by);
  if (grouping == nullptr) return;
  const std::vector<std::int64_t> points = events_of(view);
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

// The same bytes as in the report's table by use.
void add_unused(DeviceView& view) {
  if (!view.input.trace.has_uses) return;
  const tiles::Groups all = {std::vector<std::uint32_t>(view.device.lifetimes.size()), {""}};
  const tiles::Bands unused =
      tiles::unused_bands(view.input.trace, view.device, all, events_of(view));
  for (std::size_t i = 0; i < view.points.size(); ++i) {
    view.points[i].unused_bytes = unused.bytes[i];
  }
}

void add_inner_lines(DeviceView& view) {
  constexpr std::size_t kMostParts = 40;  // in all lines together, at the selected point
  const model::Trace& trace = view.input.trace;
  const model::InnerLines inner(trace, view.input.lines);
  const bool is_any = std::ranges::any_of(
      inner.rows(), [](const model::InnerLine& row) { return row.name != model::kLineItself; });
  if (!is_any) return;
  const model::AllocationKeys keys(trace, view.device, view.input.lines);
  tiles::Groups groups;
  for (std::size_t row = 0; row < view.device.lifetimes.size(); ++row) {
    groups.of.push_back(inner.of(keys.stack(row)));
  }
  // Until the kept groups are known, the name of a group is its row number.
  for (std::size_t row = 0; row < inner.rows().size(); ++row) {
    groups.names.push_back(std::to_string(row));
  }
  const std::vector<std::int64_t> events = events_of(view);
  groups = tiles::largest(trace, view.device, std::move(groups), events, important_points(view),
                          kMostParts);
  view.inside.bands = tiles::bands(trace, view.device, groups, events);
  for (std::string& name : view.inside.bands.names) {
    const bool is_rest = name == tiles::kEverythingElse;
    const model::InnerLine* const row = is_rest ? nullptr : &inner.rows()[std::stoul(name)];
    view.inside.lines.push_back(is_rest ? "" : model::line_name(view.input.lines, row->line));
    view.inside.are_in_packages.push_back(!is_rest && row->is_in_package);
    if (!is_rest) name = row->name;
  }
}

// For each point, the bytes of all groups, which are the live set. Sums wrap, like those of bands.
std::vector<std::uint64_t> live_sets(const BandTable& table) {
  std::vector<std::uint64_t> sums(table.bands.points, 0);
  for (std::size_t i = 0; i < table.bands.bytes.size(); ++i) {
    sums[i % sums.size()] += table.bands.bytes[i];
  }
  return sums;
}

// Adds a band for memory that is in the totals but not in the live set. If the file contradicts
// itself, so that the total is less than the live set, the tables sum to the live set.
void add_not_in_file(DeviceView& view) {
  if (view.tables.empty()) return;
  const std::vector<std::uint64_t> live = live_sets(view.tables.front());
  std::vector<std::uint64_t> older;
  for (std::size_t i = 0; i < live.size(); ++i) {
    std::int64_t& bytes = view.points[i].bytes;
    const auto more = static_cast<std::int64_t>(static_cast<std::uint64_t>(bytes) - live[i]);
    older.push_back(static_cast<std::uint64_t>(std::max<std::int64_t>(0, more)));
    if (more < 0) bytes = static_cast<std::int64_t>(live[i]);
  }
  if (std::ranges::all_of(older, [](std::uint64_t each) { return each == 0; })) return;
  for (BandTable& table : view.tables) {
    tiles::Bands& bands = table.bands;
    bands.names.emplace_back(kNotInFile);
    bands.bytes.insert(bands.bytes.end(), older.begin(), older.end());
    bands.counts.resize(bands.bytes.size(), 0);
    table.paints.push_back(Paint::kUnknown);
  }
}

}  // namespace

std::optional<std::size_t> DeviceView::row_of(std::int64_t event) const {
  const auto found = std::ranges::find(points, event, &ViewPoint::event);
  if (found == points.end()) return std::nullopt;
  return static_cast<std::size_t>(found - points.begin());
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
  if (view.device.events.size() == 0 || !view.report.live_totals().is_known) return view;
  view.over_time = charts::timeline_data(trace, view.device, view.report, input.lines,
                                         {.columns = kWideColumns});
  add_points(view);
  add_unused(view);
  const bool has_categories = !rows_of(input.report.tables.by_category, view.report).empty();
  if (has_categories) add_table(view, Dimension::kCategory);
  for (const Dimension by :
       {Dimension::kLayer, Dimension::kLine, Dimension::kOperator, Dimension::kTensor}) {
    add_table(view, by);
  }
  add_not_in_file(view);
  add_inner_lines(view);
  return view;
}

}  // namespace plimsoll::exporters::html
