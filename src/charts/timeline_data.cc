#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "charts/timeline.h"
#include "model/live_set.h"
#include "model/steps.h"

namespace plimsoll::charts {
namespace {

using model::Dimension;
using tiles::AxisKind;

// Dimensions with few groups in a fixed order, all of which are shown.
bool is_shown_whole(Dimension dimension) {
  return dimension == Dimension::kCategory || dimension == Dimension::kPhase;
}

std::size_t peak_column(const std::vector<tiles::Column>& columns) {
  const auto highest = std::ranges::max_element(columns, {}, &tiles::Column::live_bytes);
  return static_cast<std::size_t>(highest - columns.begin());
}

std::string place_of(const std::vector<model::StepEnd>& ends, std::int64_t point) {
  if (point < 0) return "before the first event";
  const auto event = static_cast<std::uint32_t>(point);
  if (const std::size_t row = model::step_of(ends, event); row < ends.size()) {
    return "step " + std::to_string(ends[row].step);
  }
  return "event " + base::format_count(event);
}

class AxisColumns {
 public:
  AxisColumns(const tiles::Axis& axis, std::size_t columns)
      : axis_(axis), per_unit_(static_cast<double>(columns) / axis.end()) {}

  double of_event(std::uint32_t event) const { return axis_.position(event) * per_unit_; }
  double of_position(double position) const { return position * per_unit_; }

 private:
  const tiles::Axis& axis_;
  double per_unit_;
};

std::vector<AxisSpan> step_spans(const std::vector<model::StepEnd>& ends, const tiles::Axis& axis,
                                 const AxisColumns& columns) {
  std::vector<AxisSpan> spans;
  for (std::size_t row = 0; row < ends.size(); ++row) {
    spans.push_back({columns.of_position(static_cast<double>(row)),
                     columns.of_position(static_cast<double>(row + 1)),
                     std::to_string(ends[row].step)});
  }
  if (const auto count = static_cast<double>(ends.size()); axis.end() > count) {
    spans.push_back({columns.of_position(count), columns.of_position(axis.end()), ""});
  }
  return spans;
}

// Runs of columns at whose points the last allocation was made in the same phase.
std::vector<AxisSpan> phase_spans(const model::Trace& trace, const model::DeviceTrace& device,
                                  const std::vector<tiles::Column>& columns) {
  std::vector<AxisSpan> spans;
  if (!trace.has_phases()) return spans;
  std::string phase;
  std::int64_t next = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (; next <= columns[i].point; ++next) {
      const auto event = static_cast<std::size_t>(next);
      if (device.events.action[event] != model::Action::kAlloc) continue;
      phase = name_of(trace.site(device, event).phase);
    }
    const auto at = static_cast<double>(i);
    if (spans.empty() || spans.back().label != phase) spans.push_back({at, at, phase});
    spans.back().end = at + 1;
  }
  std::erase_if(spans, [](const AxisSpan& span) { return span.label.empty(); });
  return spans;
}

void add_limit(TimelineData& data, const report::DeviceReport& report) {
  std::optional<std::uint64_t> total;
  std::optional<std::uint64_t> limit;
  if (!report.bars.empty()) total = report.bars.back().total_bytes;
  if (!report.oom_details.empty()) {
    const report::OomDetails& last = report.oom_details.back();
    if (last.device_total_bytes) total = last.device_total_bytes;
    limit = last.limit_bytes;
  }
  const bool is_limited = limit && (!total || *limit < *total);
  data.limit_bytes = is_limited ? limit : total;
  data.limit_name = is_limited ? "limit of the process" : "capacity of the device";
}

tiles::Groups chosen_groups(const model::Trace& trace, const model::DeviceTrace& device,
                            const model::UserLines& lines, const TimelineQuestion& question,
                            const TimelineData& data, std::span<const std::int64_t> points) {
  tiles::Groups groups = groups_by(trace, device, lines, data.by).value_or(tiles::Groups{});
  if (is_shown_whole(data.by) || groups.names.size() <= question.most_groups + 1) return groups;
  const std::int64_t peak = data.columns[data.peak_column].point;
  // The largest at the peak may differ from the largest overall; then fewer of each are kept.
  tiles::Groups kept;
  for (std::size_t keep = question.most_groups; keep > 0; --keep) {
    kept = tiles::largest(trace, device, groups, points, std::span(&peak, 1), keep);
    if (kept.names.size() <= question.most_groups + 1) break;
  }
  return kept;
}

std::vector<std::uint64_t> bytes_at(const tiles::Bands& bands, std::size_t column) {
  std::vector<std::uint64_t> bytes;
  for (std::size_t band = 0; band < bands.names.size(); ++band) {
    bytes.push_back(bands.of(band)[column]);
  }
  return bytes;
}

template <typename Value>
std::vector<Value> picked(std::span<const Value> values, const std::vector<std::size_t>& rows) {
  std::vector<Value> out;
  out.reserve(rows.size());
  for (const std::size_t row : rows) out.push_back(values[row]);
  return out;
}

tiles::Bands picked_bands(const tiles::Bands& bands, const std::vector<std::size_t>& columns) {
  tiles::Bands out;
  out.names = bands.names;
  out.points = columns.size();
  for (std::size_t band = 0; band < bands.names.size(); ++band) {
    const auto counts =
        std::span<const std::uint64_t>(bands.counts).subspan(band * bands.points, bands.points);
    std::ranges::move(picked(bands.of(band), columns), std::back_inserter(out.bytes));
    std::ranges::move(picked(counts, columns), std::back_inserter(out.counts));
  }
  return out;
}

// The column with the highest point. A column without events shows the state before its span, so it
// counts only if no column has events.
std::size_t highest_of(std::span<const tiles::Column> columns) {
  const auto highest = std::ranges::max_element(columns, {}, [](const tiles::Column& column) {
    return std::pair(column.first_event < column.end_event, column.live_bytes);
  });
  return static_cast<std::size_t>(highest - columns.begin());
}

// The phases of the kept columns.
std::vector<AxisSpan> coarser_phases(const std::vector<AxisSpan>& phases,
                                     const std::vector<std::size_t>& kept) {
  std::vector<AxisSpan> spans;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto at = static_cast<double>(kept[i]);
    const auto phase = std::ranges::find_if(
        phases, [&](const AxisSpan& span) { return span.begin <= at && at < span.end; });
    if (phase == phases.end()) continue;
    const auto place = static_cast<double>(i);
    const bool continues =
        !spans.empty() && spans.back().label == phase->label && spans.back().end == place;
    if (!continues) spans.push_back({place, place, phase->label});
    spans.back().end = place + 1;
  }
  return spans;
}

}  // namespace

double TimelineData::most_bytes() const {
  double most = 0;
  for (const tiles::Column& column : columns) {
    most = std::max(most, static_cast<double>(column.live_bytes));
  }
  return most;
}

std::uint64_t TimelineData::unused_bytes(std::size_t column) const {
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : bytes_at(unused, column)) sum += bytes;
  return sum;
}

TimelineData timeline_data(const model::Trace& trace, const model::DeviceTrace& device,
                           const report::DeviceReport& report, const model::UserLines& lines,
                           const TimelineQuestion& question) {
  TimelineData data;
  data.is_peak_known = report.disagreement_bytes() == 0;
  data.is_truncated = device.history == model::History::kTruncated;
  data.by = question.by.value_or(default_dimension(trace, device, lines));
  data.axis = question.axis.value_or(tiles::Axis::best(trace, device));
  if (device.events.size() == 0 || question.columns == 0) return data;
  const tiles::Axis axis(trace, device, data.axis);
  data.end = axis.end();
  const tiles::Baseline baseline = {report.live_totals().baseline_bytes,
                                    report.reserved.baseline_bytes};
  data.columns = tiles::columns(device, axis, baseline, 0, axis.end(), question.columns);
  data.peak_column = peak_column(data.columns);
  const std::vector<std::int64_t> points = tiles::points_of(data.columns);
  const tiles::Groups groups = chosen_groups(trace, device, lines, question, data, points);
  data.bands = tiles::bands(trace, device, groups, points);
  if (trace.has_uses) data.unused = tiles::unused_bands(trace, device, groups, points);
  data.stack = styles_of(data.bands.names, bytes_at(data.bands, data.peak_column), data.by);
  for (std::size_t i = 0; i < data.columns.size(); ++i) {
    std::uint64_t explained = 0;
    for (std::size_t band = 0; band < data.bands.names.size(); ++band) {
      explained += data.bands.of(band)[i];
    }
    // Wraps: a hostile file may have any size.
    data.not_in_bands.push_back(static_cast<std::int64_t>(
        static_cast<std::uint64_t>(data.columns[i].live_bytes) - explained));
  }
  const std::vector<model::StepEnd> ends = model::step_ends(trace, device);
  const AxisColumns columns(axis, question.columns);
  data.peak_place = place_of(ends, data.columns[data.peak_column].point);
  if (data.axis == AxisKind::kStep) data.steps = step_spans(ends, axis, columns);
  data.phases = phase_spans(trace, device, data.columns);
  for (const report::Oom& oom : report.ooms) {
    if (oom.event >= device.events.size()) continue;
    data.failures.push_back(
        {oom.event, columns.of_event(static_cast<std::uint32_t>(oom.event)), oom.requested_bytes});
  }
  add_limit(data, report);
  return data;
}

TimelineData coarser(const TimelineData& data, std::size_t columns) {
  PLIMSOLL_CHECK(columns > 0 && data.columns.size() % columns == 0);
  const std::size_t each = data.columns.size() / columns;
  TimelineData out = data;
  out.columns.clear();
  std::vector<std::size_t> kept;  // the column whose point each new one shows
  for (std::size_t at = 0; at < columns; ++at) {
    const auto replaced = std::span<const tiles::Column>(data.columns).subspan(at * each, each);
    const std::size_t highest = highest_of(replaced);
    kept.push_back(at * each + highest);
    out.columns.push_back(replaced[highest]);
    out.columns.back().first_event = replaced.front().first_event;
    out.columns.back().end_event = replaced.back().end_event;
    for (const tiles::Column& column : replaced) {
      if (column.lowest_bytes >= out.columns.back().lowest_bytes) continue;
      out.columns.back().lowest_bytes = column.lowest_bytes;
      out.columns.back().lowest_point = column.lowest_point;
    }
  }
  out.not_in_bands = picked(std::span<const std::int64_t>(data.not_in_bands), kept);
  out.bands = picked_bands(data.bands, kept);
  out.unused = picked_bands(data.unused, kept);
  out.peak_column = data.peak_column / each;
  const auto share = 1 / static_cast<double>(each);
  for (TimelineData::Failure& failure : out.failures) failure.column *= share;
  for (AxisSpan& step : out.steps) step = {step.begin * share, step.end * share, step.label};
  out.phases = coarser_phases(data.phases, kept);
  return out;
}

}  // namespace plimsoll::charts
