// plimsoll analyze: the summary of a text log, or of a CSV log of nvidia-smi.

#include <algorithm>
#include <charconv>
#include <string>

#include "base/json_writer.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/log_text.h"
#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "monitor/log_reader.h"
#include "monitor/log_summary.h"

namespace plimsoll::cli {
namespace {

int say(const Error& error) {
  complain(error.message);
  return exit_code_of(error.code);
}

Result<std::size_t> parse_top(const std::string& text) {
  std::size_t rows = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rows);
  if (error != std::errc{} || end != text.data() + text.size() || rows == 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--top " + text + " is no number of rows: say 1 or more");
  }
  return rows;
}

std::string json_of(const monitor::LogSummary& summary) {
  std::string text;
  base::JsonWriter json(
      [&](std::string_view piece) {
        text += piece;
        return true;
      },
      base::JsonWriter::Style::kIndented);
  base::write_json(json, summary);
  json.finish();
  return text + "\n";
}

bool is_to_fail_on(const monitor::LogSummary& summary, const std::vector<std::string>& fail_on) {
  return std::ranges::any_of(summary.findings, [&](const monitor::Alert& alert) {
    return std::ranges::any_of(fail_on, [&](const std::string& word) {
      using enum monitor::AlertSeverity;
      for (const auto least : {kInfo, kWarning, kCritical}) {
        if (word == to_string(least)) return alert.severity >= least;
      }
      return word == alert.id;
    });
  });
}

Result<std::string> chosen_file(const Arguments& arguments) {
  const std::string file = arguments.value("FILE", "latest");
  if (file != "latest") return file;
  return monitor::latest_text_log(arguments.value("--dir", "."));
}

int run_analyze(const Arguments& arguments) {
  LogTextOptions options;
  options.width = output_width();
  options.color = output_color(arguments.value("--color", "auto"));
  if (arguments.has("--top")) {
    const auto top = parse_top(arguments.value("--top"));
    if (!top) return say(top.error());
    options.top = *top;
  }
  const auto file = chosen_file(arguments);
  if (!file) return say(file.error());
  ProgressBar bar(*file);
  const auto summary = monitor::summarize_log(*file, [&](std::uint64_t done, std::uint64_t total) {
    return bar.advance("reading", done, total);
  });
  bar.clear();
  if (!summary) return say(summary.error());
  const Status status =
      print(arguments.has("--json") ? json_of(*summary) : to_text(*summary, options));
  if (!status) return say(status.error());
  return is_to_fail_on(*summary, arguments.values("--fail-on")) ? kFindingToFailOn : kFine;
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
      {"--fail-on",
       "",
       "WHAT",
       "Exit with status 1 if there is a finding of this severity or a graver one, or with this "
       "id; several as a,b.",
       {"info", "warning", "critical", "activations_stay", "temporaries_stay",
        "gradients_accumulate", "memory_growth", "more_large_tensors", "fragmentation",
        "memory_jump_with_loss", "device_nearly_full"},
       true},
      {"--color",
       "",
       "WHEN",
       "Colour (default auto: on a terminal, unless NO_COLOR is set).",
       {"auto", "always", "never"}},
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
