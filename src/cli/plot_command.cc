// plimsoll plot: a chart of a recording as SVG, PDF or PNG.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/units.h"
#include "charts/plots.h"
#include "cli/commands.h"
#include "cli/line/common_options.h"
#include "cli/line/exit_code.h"
#include "cli/line/interruption.h"
#include "cli/line/progress_bar.h"
#include "cli/line/terminal.h"
#include "cli/runs/child_process.h"
#include "cli/runs/output_file.h"
#include "cli/runs/python_package.h"
#include "engine/parse_options.h"
#include "engine/session_state.h"
#include "page/pdf.h"
#include "page/png.h"
#include "page/svg.h"
#include "plimsoll/session.h"

namespace plimsoll::cli {
namespace {

using charts::Plot;
using charts::PlotInput;
using charts::PlotOptions;

// A kind of plot, and the options that apply to it.
struct PlotKind {
  std::string_view name;
  std::span<const char* const> (*needs)();
  Result<Plot> (*plot)(const PlotInput&, const PlotOptions&);  // null: plots several recordings
  bool has_by = false;
  bool has_at = false;
  bool has_axis = false;
  std::string_view at = "peak";  // unless the user chooses
};
constexpr std::string_view kLastFailure = "oom";

constexpr std::array<PlotKind, 5> kPlotKinds = {{
    {"timeline", charts::timeline_needs, charts::plot_timeline, true, false, true},
    {"layers", charts::layers_needs, charts::plot_layers, false, true, false},
    {"segments", charts::segments_needs, charts::plot_segments, true, true, false, kLastFailure},
    {"steps", charts::steps_needs, charts::plot_steps, false, false, false},
    {"ranks", charts::steps_needs, nullptr, false, false, false},
}};
constexpr double kLeastPixels = 200;
constexpr double kMostPixels = 8000;
constexpr double kPngScale = 2;
// The most pixels of a PNG. More would take gigabytes, and seconds in which Ctrl-C has no effect.
constexpr double kMostPixelsOfPng = 16e6;

Error plot_error(std::string message) {
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

Result<double> chosen_pixels(const Arguments& arguments, const std::string& option,
                             double if_not_given) {
  if (!arguments.has(option)) return if_not_given;
  const std::string text = arguments.value(option);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < kLeastPixels ||
      value > kMostPixels) {
    return plot_error(option + " " + text + " is not a number of pixels from 200 to 8000");
  }
  return static_cast<double>(value);
}

// A folder, or the address of an object store.
bool is_fleet(const Arguments& arguments) {
  const std::vector<std::string> paths = arguments.values("FILE");
  std::error_code unknown;
  return paths.size() == 1 && (paths.front().find("://") != std::string::npos ||
                               std::filesystem::is_directory(paths.front(), unknown));
}

// Options that do not apply to the plot are errors.
Status check_options(const Arguments& arguments, const PlotKind& kind) {
  const std::array<std::pair<const char*, bool>, 4> known = {{{"--by", kind.has_by},
                                                              {"--at", kind.has_at},
                                                              {"--axis", kind.has_axis},
                                                              {"--device", kind.plot != nullptr}}};
  for (const auto& [option, has_meaning] : known) {
    if (has_meaning || !arguments.has(option)) continue;
    return plot_error(std::string(option) + " does not apply to --what " + std::string(kind.name) +
                      ": leave it out");
  }
  const bool plots_fleet = kind.plot == nullptr && is_fleet(arguments);
  if (arguments.has("--run") && !plots_fleet) {
    return plot_error("--run applies only to --what ranks of a fleet: leave it out");
  }
  const std::size_t files = arguments.values("FILE").size();
  if (kind.plot != nullptr && files > 1) {
    return plot_error("--what " + std::string(kind.name) + " plots one recording; got " +
                      std::to_string(files) + " files");
  }
  if (kind.plot == nullptr && files < 2 && !plots_fleet) {
    return plot_error(
        "--what ranks compares the recordings of several ranks; got 1 file; name one file per "
        "rank, or the folder of a fleet");
  }
  return {};
}

Result<PlotOptions> plot_options(const Arguments& arguments) {
  PlotOptions options;
  PLIMSOLL_TRY_ASSIGN(options.width, chosen_pixels(arguments, "--width", options.width));
  PLIMSOLL_TRY_ASSIGN(options.height, chosen_pixels(arguments, "--height", options.height));
  options.title = arguments.value("--title");
  options.by = arguments.value("--by");
  options.axis = arguments.value("--axis");
  return options;
}

page::Theme chosen_theme(const Arguments& arguments) {
  const std::string name = arguments.value("--theme", "print");
  if (name == "dark") return page::Theme::kDark;
  return name == "light" ? page::Theme::kLight : page::Theme::kPrint;
}

ProgressCallback progress_of(ProgressBar& bar) {
  return [&bar](std::string_view stage, std::uint64_t done, std::uint64_t total) {
    return bar.advance(stage, done, total);
  };
}

Question question_for(const Arguments& arguments, const PlotKind& kind) {
  Question question;
  question.device = arguments.value("--device");
  question.at = arguments.value("--at", std::string(kind.at));
  const auto needs = kind.needs();
  question.analyses.assign(needs.begin(), needs.end());
  return question;
}

Result<std::size_t> chosen_device(const Arguments& arguments, const Session& session,
                                  const report::Report& report) {
  std::optional<model::Device> wanted;
  if (arguments.has("--device")) {
    PLIMSOLL_TRY_ASSIGN(wanted,
                        engine::parse_device(arguments.value("--device"), session.state().trace));
  }
  return charts::device_to_plot(session.state().trace, report, wanted);
}

Result<Plot> plot_of(const std::string& path, const Arguments& arguments, const PlotKind& kind,
                     const PlotOptions& options) {
  ProgressBar bar(path);
  const ProgressCallback progress = progress_of(bar);
  PLIMSOLL_TRY_ASSIGN(const Session session, Session::open(path, {progress}));
  Question question = question_for(arguments, kind);
  Result<Report> asked = session.ask(question, progress);
  if (!asked && question.at == kLastFailure && !arguments.has("--at")) {
    question.at = "end";  // memory never ran out
    asked = session.ask(question, progress);
  }
  PLIMSOLL_TRY_ASSIGN(const Report report, std::move(asked));
  const auto device = chosen_device(arguments, session, report.value());
  if (!device) return plot_error(path + ": " + device.error().message);
  auto plot =
      kind.plot({session.state().trace, report.value(), session.state().lines, *device}, options);
  if (!plot) return make_error(plot.error().code, path + ": " + plot.error().message);
  return plot;
}

// Reads one recording after another, so that only their reports are in memory.
Result<Plot> plot_of_ranks(const Arguments& arguments, const PlotKind& kind,
                           const PlotOptions& options) {
  std::vector<report::Report> reports;
  for (const std::string& path : arguments.values("FILE")) {
    ProgressBar bar(path);
    const ProgressCallback progress = progress_of(bar);
    PLIMSOLL_TRY_ASSIGN(const Session session, Session::open(path, {progress}));
    PLIMSOLL_TRY_ASSIGN(const Report report, session.ask(question_for(arguments, kind), progress));
    reports.push_back(report.value());
  }
  return charts::plot_ranks(reports, options);
}

// Python reads the fleet. It prints the name of the run, then a line for each rank: its number and
// group, whether memory ran out, whether the last step has not ended, and steps with their peaks.
Result<Plot> plot_of_fleet(const Arguments& arguments, const PlotOptions& options) {
  std::vector<std::string> words = package_file("_command/fleet.py");
  words.emplace_back("ranks");
  if (arguments.has("--run")) words.push_back("--run=" + arguments.value("--run"));
  words.insert(words.end(), {"--", arguments.value("FILE")});
  PLIMSOLL_TRY_ASSIGN(const ProgramOutput output, read_program(words));
  if (output.status != 0) {
    constexpr std::string_view kBegin = "plimsoll: ";
    std::string why = output.errors.substr(0, output.errors.find('\n'));
    if (why.starts_with(kBegin)) why.erase(0, kBegin.size());
    return make_error(output.status == kUsageError ? ErrorCode::kInvalidArgument : ErrorCode::kIo,
                      why);
  }
  std::istringstream lines(output.out);
  std::string run;
  std::getline(lines, run);
  std::vector<charts::RankSteps> ranks;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    charts::RankSteps& rank = ranks.emplace_back();
    numbers >> rank.rank >> rank.group >> rank.has_failed >> rank.has_rest;
    for (charts::StepPeak step; numbers >> step.step >> step.peak_bytes;) {
      rank.steps.push_back(step);
    }
  }
  return charts::plot_ranks(ranks, run, options);
}

Result<std::string> file_of(const Plot& plot, page::Theme theme, const std::string& path) {
  const page::Drawing& drawing = plot.chart.drawing;
  if (path.ends_with(".pdf")) return page::to_pdf(drawing, theme, plot.title);
  const bool is_svg = path.ends_with(".svg");
  if (!is_svg && drawing.width * drawing.height > kMostPixelsOfPng) {
    const auto pixels = [](double length) {
      return base::format_count(static_cast<std::uint64_t>(length));
    };
    return plot_error("a PNG of " + pixels(drawing.width) + " x " + pixels(drawing.height) +
                      " is too large: --width times --height may be at most " +
                      pixels(kMostPixelsOfPng) + "; choose less, or .svg or .pdf");
  }
  if (!is_svg) return page::to_png(drawing, theme, kPngScale);
  page::SvgOptions options;
  options.theme = theme;
  options.title = plot.title;
  options.description = plot.chart.description;
  return page::to_svg(drawing, options);
}

Status write_plot(const Arguments& arguments) {
  const PlotKind& kind = *std::ranges::find(kPlotKinds, arguments.value("--what", "timeline"),
                                            &PlotKind::name);  // checked as a choice
  PLIMSOLL_TRY(check_options(arguments, kind));
  PLIMSOLL_TRY_ASSIGN(const PlotOptions options, plot_options(arguments));
  const std::string path = arguments.value("--output");
  if (!path.ends_with(".svg") && !path.ends_with(".pdf") && !path.ends_with(".png")) {
    return plot_error("-o " + path + ": the name must end in .svg, .pdf or .png");
  }
  const Existing existing = arguments.has("--force") ? Existing::kReplace : Existing::kRefuse;
  PLIMSOLL_TRY(check_not_an_input(path, arguments.values("FILE")));
  PLIMSOLL_TRY_ASSIGN(OutputFile output, OutputFile::create(path, existing));
  PLIMSOLL_TRY_ASSIGN(const Plot plot,
                      kind.plot != nullptr
                          ? plot_of(arguments.value("FILE"), arguments, kind, options)
                      : is_fleet(arguments) ? plot_of_fleet(arguments, options)
                                            : plot_of_ranks(arguments, kind, options));
  PLIMSOLL_TRY_ASSIGN(const std::string file, file_of(plot, chosen_theme(arguments), path));
  if (is_interrupted()) return make_error(ErrorCode::kInterrupted, "interrupted");
  output.write(file);
  PLIMSOLL_TRY(output.finish());
  return print(path + " (" + base::bytes_text(output.size_bytes()) + ")\n");
}

int run_plot(const Arguments& arguments) {
  const Status status = write_plot(arguments);
  return status ? kFine : complain(status.error());
}

}  // namespace

Command plot_command() {
  Command command;
  command.name = "plot";
  command.summary = "Draw a chart of a recording as SVG, PDF or PNG";
  command.description =
      "Draws memory over time, or what fills memory at one point in time, as a picture.";
  command.positionals = {recording_positional(
      "The recording; with --what ranks, one recording per rank, or a fleet (plimsoll fleet).",
      Count::kOneOrMore)};
  std::vector<std::string> kinds;
  for (const PlotKind& kind : kPlotKinds) kinds.emplace_back(kind.name);
  Option output{"--output", "-o", "PATH", "Output file, whose name ends in .svg, .pdf or .png."};
  output.is_required = true;
  command.options = {
      {"--what", "", "CHART",
       "What to draw (default timeline): memory over time; the layers at a point in time; the "
       "segments of the allocator and what pins them; floor and peak of each step; the ranks of a "
       "run, step by step.",
       kinds},
      output,
      {"--theme", "", "THEME", "Colors (default print: on white).", {"print", "dark", "light"}},
      {"--width", "", "PX",
       "Width, 200 to 8000 (default 960). A PNG has twice as many pixels, for sharp screens; its "
       "width times its height is at most 16,000,000."},
      {"--height", "", "PX", "Height, 200 to 8000. Default: depends on the chart."},
      {"--at", "", "POINT",
       "Point in time of layers and segments; as in plimsoll report. Default: the peak for layers; "
       "for "
       "segments the last time memory ran out, else the end."},
      {"--by", "", "GROUP",
       "What the colors of timeline and segments stand for. Default: category if known, else line.",
       charts::groupings()},
      {"--axis", "", "AXIS",
       "x axis of the timeline. Default: step if steps are marked, else event.", charts::axes()},
      {"--device", "", "DEVICE",
       "The device: 0, cuda:1, cpu. Default: the one with the highest peak, a GPU if there is "
       "one."},
      {"--run", "", "NAME", "The run of a fleet. Default: the one that began last."},
      {"--title", "", "TEXT", "Title. Default: the recording's name and what the chart shows."},
      {"--force", "", "", "Replace the output if it exists."},
  };
  command.sections = {
      {"examples",
       {
           {"plimsoll plot run.plim -o memory.svg", "memory over time"},
           {"plimsoll plot run.plim --what layers --at end -o layers.png", "layers at the end"},
           {"plimsoll plot snapshot.pickle --what segments --by line -o segments.svg",
            "which line pins which segment"},
           {"plimsoll plot runs --what ranks -o ranks.svg", "the ranks of a fleet's latest run"},
       }}};
  command.run = run_plot;
  return command;
}

}  // namespace plimsoll::cli
