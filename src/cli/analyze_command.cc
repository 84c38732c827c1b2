// plimsoll analyze: the summary of a text log, or of a CSV log of nvidia-smi.

#include <string>

#include "base/json_writer.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/exit_code.h"
#include "cli/log_text.h"
#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "monitor/detection.h"
#include "monitor/log_reader.h"
#include "monitor/log_summary.h"

namespace plimsoll::cli {
namespace {

std::string json_of(const monitor::LogSummary& summary) {
  return base::json_text([&](base::JsonWriter& json) { base::write_json(json, summary); });
}

Result<std::string> chosen_file(const Arguments& arguments) {
  const std::string file = arguments.value("FILE", "latest");
  if (file != "latest") return file;
  return monitor::latest_text_log(arguments.value("--dir", "."));
}

int run_analyze(const Arguments& arguments) {
  LogTextOptions options;
  options.width = output_width();
  options.color = chosen_color(arguments);
  const auto top = chosen_top(arguments, options.top);
  if (!top) return complain(top.error());
  options.top = *top;
  const auto file = chosen_file(arguments);
  if (!file) return complain(file.error());
  ProgressBar bar(*file);
  const auto summary = monitor::summarize_log(*file, [&](std::uint64_t done, std::uint64_t total) {
    return bar.advance("reading", done, total);
  });
  bar.clear();
  if (!summary) return complain(summary.error());
  const Status status =
      print(arguments.has("--json") ? json_of(*summary) : to_text(*summary, options));
  if (!status) return complain(status.error());
  return is_to_fail_on(summary->findings, arguments) ? kFindingToFailOn : kFine;
}

}  // namespace

Command analyze_command() {
  Command command;
  command.name = "analyze";
  command.summary = "Sum up the text log of a training run, or a log of nvidia-smi";
  command.description =
      "Reads a text log that training wrote (OUTPUT_DIR/profiles/tensor_profile_*.log), or what "
      "nvidia-smi --query-gpu=... --format=csv wrote, and says what is wrong, how memory went from "
      "the start to the end, and what held it at the end.";
  command.positionals = {{"FILE",
                          "The log, or latest: the newest text log below --dir. Default: latest.",
                          Count::kAtMostOne}};
  command.options = {
      {"--dir", "", "DIR", "Where latest looks: DIR/profiles and DIR. Default: this folder."},
      {"--top", "", "N", "Rows of each table (default 10)."},
      {"--json", "", "", "One JSON object as `plimsoll schema analyze` describes it."},
      fail_on_option(monitor::kAlertIds),
      color_option(),
  };
  command.sections = {
      {"examples",
       {{"plimsoll analyze latest", "the run in this folder"},
        {"plimsoll analyze latest --dir runs/7", "the run in another one"},
        {"plimsoll analyze smi.csv", "what nvidia-smi logged"},
        {"plimsoll analyze run.log --json --fail-on warning", "for scripts and CI"}}}};
  command.run = run_analyze;
  return command;
}

}  // namespace plimsoll::cli
