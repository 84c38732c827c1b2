#include "charts/plots.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/path_text.h"
#include "base/units.h"
#include "charts/frame.h"
#include "charts/grouping.h"
#include "charts/layers.h"
#include "charts/ranks.h"
#include "charts/segments.h"
#include "charts/steps.h"
#include "charts/timeline.h"
#include "model/groupings.h"
#include "report/devices.h"
#include "tiles/axis.h"

namespace plimsoll::charts {
namespace {

using model::Dimension;
using report::DeviceReport;
using report::PointInTime;

constexpr std::string_view kDot = " \xC2\xB7 ";

std::string joined_by_dots(std::initializer_list<std::string> parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : std::string(kDot)) + part;
  return out;
}

Error missing(std::string sentence) {
  return make_error(ErrorCode::kInvalidArgument, std::move(sentence));
}

// What all plots of a recording share: its device, point in time, title and errors.
class PlotMaker {
 public:
  PlotMaker(const PlotInput& input, const PlotOptions& options)
      : input_(input), options_(options) {}

  const model::DeviceTrace& device() const { return input_.trace.devices[input_.device]; }
  const DeviceReport& device_report() const { return input_.report.devices[input_.device]; }
  std::string device_name() const { return model::to_string(device().device); }

  const PointInTime* point() const {
    const auto& points = input_.report.tables.points;
    const auto found = std::ranges::find(points, device().device.ordinal, &PointInTime::device);
    return found == points.end() ? nullptr : &*found;
  }

  ChartOptions chart_options(const std::string& figures, const std::string& subtitle) const {
    ChartOptions chart;
    chart.width = options_.width;
    chart.height = options_.height;
    chart.title = options_.title.empty()
                      ? joined_by_dots({std::string(base::file_name(input_.report.source.path)),
                                        device_name(), figures})
                      : options_.title;
    chart.subtitle = subtitle;
    chart.has_legend = true;
    return chart;
  }

  // nullopt: the default. Returns an error if bands or blocks cannot be grouped this way.
  Result<std::optional<model::Dimension>> dimension() const {
    if (options_.by.empty()) return std::optional<Dimension>();
    const std::optional<Dimension> by = model::dimension_named(options_.by);
    if (by && groups_by(input_.trace, device(), input_.lines, *by)) return by;
    return missing("the recording has no data by " + options_.by +
                   "; choose another --by, such as line");
  }

  Result<std::optional<tiles::AxisKind>> axis() const {
    if (options_.axis.empty()) return std::optional<tiles::AxisKind>();
    const std::optional<tiles::AxisKind> axis = tiles::axis_named(options_.axis);
    if (axis && tiles::Axis::is_known(input_.trace, device(), *axis)) return axis;
    return missing(axis == tiles::AxisKind::kStep
                       ? "no steps are marked, so there is no --axis step; use time or event, or "
                         "mark steps with plimsoll.step()"
                       : "the times of the events are unknown, so there is no --axis " +
                             options_.axis + "; use event");
  }

 private:
  const PlotInput& input_;
  const PlotOptions& options_;
};

std::string time_text(const PointInTime& point, const DeviceReport& device) {
  if (point.name == "peak") return "at the peak";
  if (point.name == "start") return "at the start";
  if (point.name == "end") return "at the end";
  if (point.name.starts_with("oom")) return "when memory ran out";
  if (point.name.starts_with("time") && point.time_ns && device.first_time_ns) {
    return base::format_duration(*point.time_ns - *device.first_time_ns) + " after the first event";
  }
  return "at " + point.name;
}

}  // namespace

std::vector<std::string> groupings() {
  std::vector<std::string> names;
  for (const Dimension dimension :
       {Dimension::kCategory, Dimension::kLayer, Dimension::kLine, Dimension::kOperator,
        Dimension::kPhase, Dimension::kStream, Dimension::kPool}) {
    names.emplace_back(model::to_string(dimension));
  }
  return names;
}

std::vector<std::string> axes() {
  std::vector<std::string> names;
  for (const auto axis :
       {tiles::AxisKind::kStep, tiles::AxisKind::kTime, tiles::AxisKind::kEvent}) {
    names.emplace_back(tiles::to_string(axis));
  }
  return names;
}

Result<std::size_t> device_to_plot(const model::Trace& trace, const report::Report& report,
                                   const std::optional<model::Device>& wanted) {
  if (wanted) {
    const auto found = std::ranges::find(trace.devices, *wanted, &model::DeviceTrace::device);
    return static_cast<std::size_t>(found - trace.devices.begin());
  }
  const DeviceReport* device = report::main_device(report);
  if (device == nullptr) return missing("the recording has no memory events and no memory");
  return static_cast<std::size_t>(device - report.devices.data());
}

std::span<const char* const> timeline_needs() {
  static constexpr std::array kNames = {"timeline", "composition", "oom", "device"};
  return kNames;
}
std::span<const char* const> layers_needs() {
  static constexpr std::array kNames = {"timeline", "composition", "layers"};
  return kNames;
}
std::span<const char* const> segments_needs() {
  static constexpr std::array kNames = {"timeline", "composition"};
  return kNames;
}
std::span<const char* const> steps_needs() {
  static constexpr std::array kNames = {"timeline", "composition", "steps", "growth", "oom"};
  return kNames;
}

Result<Plot> plot_timeline(const PlotInput& input, const PlotOptions& options) {
  const PlotMaker maker(input, options);
  const model::DeviceTrace& device = maker.device();
  if (device.events.size() == 0) {
    return missing("no memory events of " + maker.device_name() +
                   " were recorded, so its memory over time is unknown; plimsoll run records them");
  }
  TimelineQuestion question;
  PLIMSOLL_TRY_ASSIGN(question.by, maker.dimension());
  PLIMSOLL_TRY_ASSIGN(question.axis, maker.axis());
  ChartOptions chart;
  chart.width = options.width;
  question.columns = timeline_columns(chart);
  const TimelineData data =
      timeline_data(input.trace, device, maker.device_report(), input.lines, question);
  const std::string peak = data.is_peak_known ? "peak " + bytes_text(data.most_bytes())
                                              : "peak unknown, events and segments disagree";
  chart =
      maker.chart_options(peak, std::string("live bytes by ") + model::to_string(data.by) +
                                    "; each column shows the point with the most live bytes in it");
  return Plot{timeline(data, chart), chart.title};
}

Result<Plot> plot_layers(const PlotInput& input, const PlotOptions& options) {
  const PlotMaker maker(input, options);
  const std::int32_t ordinal = maker.device().device.ordinal;
  if (!input.trace.has_layers()) {
    return missing("the recording has no layers; plimsoll run and plimsoll.record() record them");
  }
  const PointInTime* point = maker.point();
  const auto& rows = input.report.tables.folded_layers;
  const bool has_bytes = std::ranges::any_of(rows, [&](const report::FoldedLayerRow& row) {
    return row.device == ordinal && row.inclusive.bytes > 0;
  });
  if (point == nullptr || !has_bytes) {
    return missing("no memory is live on " + maker.device_name() +
                   (point == nullptr ? "" : " " + time_text(*point, maker.device_report())) +
                   "; choose another --at");
  }
  const std::string bytes = bytes_text(point->live_bytes);
  const ChartOptions chart = maker.chart_options(
      bytes + " live " + time_text(*point, maker.device_report()),
      "live bytes by layer; a box contains those below it, its stripe shows the phase "
      "that allocated them");
  return Plot{layers(input.report, ordinal, chart), chart.title};
}

Result<Plot> plot_segments(const PlotInput& input, const PlotOptions& options) {
  const PlotMaker maker(input, options);
  PLIMSOLL_TRY_ASSIGN(const std::optional<Dimension> by, maker.dimension());
  const PointInTime* point = maker.point();
  if (report::is_host(maker.device_report())) {
    const bool has_gpu = std::ranges::any_of(input.report.devices, [](const DeviceReport& device) {
      return !report::is_host(device) && report::has_content(device);
    });
    return missing(maker.device_name() +
                   " has no segments: only the caching allocator of a GPU has them" +
                   (has_gpu ? "; choose a GPU with --device" : ", and this recording has no GPU"));
  }
  const std::int64_t event = point != nullptr && point->event
                                 ? static_cast<std::int64_t>(*point->event)
                                 : std::int64_t{-1};
  const SegmentsData data = segments_data(input.trace, maker.device(), input.lines, event, by);
  if (data.segments.empty()) {
    return missing("no segments of " + maker.device_name() + " are known" +
                   (point == nullptr ? "" : " " + time_text(*point, maker.device_report())) +
                   "; snapshots of torch.cuda.memory and recordings of plimsoll run have them");
  }
  const ChartOptions chart = maker.chart_options(
      bytes_text(data.reserved_bytes) + " reserved" +
          (point == nullptr ? "" : " " + time_text(*point, maker.device_report())),
      base::counted(data.segments.size(), "segment") + "; the area of a box is bytes");
  return Plot{segments(data, chart), chart.title};
}

Result<Plot> plot_steps(const PlotInput& input, const PlotOptions& options) {
  const PlotMaker maker(input, options);
  const std::int32_t ordinal = maker.device().device.ordinal;
  const auto& rows = input.report.tables.steps;
  const auto is_complete = [&](const report::StepRow& row) {
    return row.device == ordinal && row.is_complete;
  };
  const auto count = static_cast<std::uint64_t>(std::ranges::count_if(rows, is_complete));
  if (count == 0) {
    return missing(
        "no steps are marked on " + maker.device_name() +
        "; plimsoll run marks one at each optimizer step; in other loops, call plimsoll.step()");
  }
  const ChartOptions chart = maker.chart_options(
      base::counted(count, "step"), "from the bytes live at the end of each step up to its peak");
  return Plot{steps(input.report, ordinal, chart), chart.title};
}

Result<Plot> plot_ranks(const std::vector<report::Report>& reports, const PlotOptions& options) {
  std::vector<RankSteps> rows;
  std::map<std::int64_t, std::string> paths;
  for (const report::Report& report : reports) {
    const std::string& path = report.source.path;
    if (!report.source.rank) {
      return missing(path +
                     ": the rank of the process is unknown; plimsoll run records it under "
                     "torchrun");
    }
    if (!paths.emplace(*report.source.rank, path).second) {
      return missing(path + ": another file is also of rank " +
                     std::to_string(*report.source.rank) + "; give one file for each rank");
    }
    if (const DeviceReport* device = report::main_device(report)) {
      rows.push_back(steps_of(report, device->device, *report.source.rank));
    }
  }
  std::ranges::sort(rows, {}, &RankSteps::rank);
  const std::string first = paths.empty() ? std::string() : paths.begin()->second;
  return plot_ranks(rows, std::string(base::file_name(first)), options);
}

Result<Plot> plot_ranks(const std::vector<RankSteps>& rows, const std::string& run,
                        const PlotOptions& options) {
  if (rows.size() < 2) {
    return missing("a plot of ranks needs recordings of 2 ranks or more; got " +
                   std::to_string(rows.size()));
  }
  if (std::ranges::all_of(rows, [](const RankSteps& rank) { return rank.steps.empty(); })) {
    return missing("no steps are marked in any of the " + std::to_string(rows.size()) +
                   " recordings; mark them with plimsoll.step()");
  }
  const bool has_groups = std::ranges::any_of(
      rows, [&](const RankSteps& rank) { return rank.group != rows.front().group; });
  ChartOptions chart;
  chart.width = options.width;
  chart.height = options.height;
  chart.title = options.title.empty() ? joined_by_dots({run, base::counted(rows.size(), "rank")})
                                      : options.title;
  chart.subtitle = "peak of each step: its deviation from the median of the ";
  chart.subtitle += has_groups ? "comparable ranks" : "ranks";
  chart.has_legend = true;
  return Plot{ranks(rows, chart), chart.title};
}

Plot timeline_to_export(const model::Trace& trace, const report::Report& report,
                        const model::UserLines& lines) {
  const auto& points = report.tables.points;
  const DeviceReport* device = points.size() == 1
                                   ? report::find_device(report, points.front().device)
                                   : report::main_device(report);
  std::string reason = "no memory events were recorded";
  if (device != nullptr) {
    const auto row = static_cast<std::size_t>(device - report.devices.data());
    Result<Plot> plot = plot_timeline({trace, report, lines, row}, {});
    if (plot) return std::move(plot).value();
    reason = plot.error().message;
  }
  ChartOptions chart;
  chart.title = base::file_name(report.source.path);
  return Plot{message_chart(reason, chart), chart.title};
}

}  // namespace plimsoll::charts
