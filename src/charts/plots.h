// Charts as separate pictures with title and legend, for papers and READMEs. If a recording lacks
// the data for a chart, the error says why and which recording would have them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "charts/chart.h"
#include "charts/ranks.h"
#include "model/trace.h"
#include "model/user_line.h"
#include "plimsoll/result.h"
#include "report/report.h"

namespace plimsoll::charts {

// One device of a recording. `device` is the row in the trace and in the report.
struct PlotInput {
  const model::Trace& trace;
  const report::Report& report;
  const model::UserLines& lines;
  std::size_t device = 0;
};

struct PlotOptions {
  double width = 960;
  double height = 0;       // 0: a height that suits the chart
  std::string title = {};  // empty: from the recording
  std::string by = {};     // grouping of the timeline or of blocks in segments: one of groupings()
  std::string axis = {};   // axis of the timeline: one of axes(). Empty: suits the recording
};
std::vector<std::string> groupings();  // "category", "layer", ...
std::vector<std::string> axes();       // "step", "time", "event"

struct Plot {
  Chart chart;
  std::string title;
};

// The device to plot: the wanted one, which must be in the trace, else the report's main device.
Result<std::size_t> device_to_plot(const model::Trace& trace, const report::Report& report,
                                   const std::optional<model::Device>& wanted);

// The analyses whose results a plot needs.
std::span<const char* const> timeline_needs();
std::span<const char* const> layers_needs();
std::span<const char* const> segments_needs();
std::span<const char* const> steps_needs();

Result<Plot> plot_timeline(const PlotInput& input, const PlotOptions& options);
Result<Plot> plot_layers(const PlotInput& input, const PlotOptions& options);
Result<Plot> plot_segments(const PlotInput& input, const PlotOptions& options);
Result<Plot> plot_steps(const PlotInput& input, const PlotOptions& options);
// Plots the main device of each report. The reports must be of different ranks.
Result<Plot> plot_ranks(const std::vector<report::Report>& reports, const PlotOptions& options);
// `run` is the name of their run.
Result<Plot> plot_ranks(const std::vector<RankSteps>& ranks, const std::string& run,
                        const PlotOptions& options);

// For exporters, which always write a picture: the timeline of the only device in the report's
// tables, else of the main device; or a picture with the reason why there is none.
Plot timeline_to_export(const model::Trace& trace, const report::Report& report,
                        const model::UserLines& lines);

}  // namespace plimsoll::charts
