// plimsoll analyze: summarizes a text log, or a CSV log of nvidia-smi; compares several.

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "alerts/detection.h"
#include "base/json_writer.h"
#include "cli/commands.h"
#include "cli/comparison_text.h"
#include "cli/line/common_options.h"
#include "cli/line/exit_code.h"
#include "cli/line/progress_bar.h"
#include "cli/line/terminal.h"
#include "cli/log_text.h"
#include "exporters/labels.h"
#include "logs/comparison.h"
#include "logs/finder.h"
#include "logs/reader.h"
#include "logs/summary.h"
#include "plimsoll/session.h"
#include "report/report.h"

namespace plimsoll::cli {
namespace {

template <typename T>
std::string json_of(const T& value) {
  return base::json_text([&](base::JsonWriter& json) { base::write_json(json, value); });
}

bool is_folder(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown);
}

// The logs that the arguments name. For a folder or "latest", the newest run below it.
Result<std::vector<std::string>> chosen_logs(const Arguments& arguments) {
  std::vector<std::string> words = arguments.values("FILE");
  if (words.empty()) words = {"latest"};
  std::vector<std::string> logs;
  for (const std::string& word : words) {
    if (word != "latest" && !is_folder(word)) {
      logs.push_back(word);
      continue;
    }
    const std::string folder = word == "latest" ? arguments.value("--dir", ".") : word;
    PLIMSOLL_TRY_ASSIGN(logs::LatestRun run, logs::find_latest_run(folder));
    if (!run.is_complete) {
      complain(folder +
               " has too many files to search; a newer log may exist: name the run's folder");
    }
    if (!run.skipped.empty()) {
      complain(run.skipped + " has no complete sample: an older log is summarized");
    }
    for (std::string& log : run.logs) logs.push_back(std::move(log));
  }
  return logs;
}

constexpr const char* kMessages = "messages";  // the format of a log that has no figures

// Puts first what the program's own lines in the log say about memory that ran out.
void add_messages(const std::string& file, logs::LogSummary& summary) {
  if (!summary.is_of_program) return;
  const auto session = Session::open(file);
  if (!session) return;  // the log has no such message
  Question question;
  question.analyses = {"findings"};
  const auto report = session->ask(question);
  if (!report) return;
  const report::Report& read = report->value();
  if (read.source.format != "oom_message") return;  // not a log
  std::vector<MemoryAlert> messages;
  for (const report::Finding& finding : read.findings) {
    MemoryAlert& message = messages.emplace_back();
    static_cast<report::Finding&>(message) = finding;
    if (read.devices.size() == 1) message.device = exporters::device_name(read.devices[0]);
    message.iteration = summary.last_iteration.value_or(0);
  }
  summary.findings.insert(summary.findings.begin(), messages.begin(), messages.end());
}

Result<logs::LogSummary> log_summary_of(const std::string& file) {
  ProgressBar bar(file);
  auto summary = logs::summarize_log(file, [&](std::uint64_t done, std::uint64_t total) {
    return bar.advance("reading", done, total);
  });
  if (summary) {
    add_messages(file, *summary);
  } else if (summary.error().code == ErrorCode::kUnsupported) {
    logs::LogSummary messages;
    messages.source.path = file;
    messages.source.format = kMessages;
    messages.is_of_program = true;
    add_messages(file, messages);
    if (!messages.findings.empty()) summary = std::move(messages);
  }
  bar.clear();
  if (summary || summary.error().code != ErrorCode::kNotFound) return summary;
  return make_error(ErrorCode::kNotFound,
                    summary.error().message +
                        "; plimsoll analyze latest finds the newest log below the current folder");
}

int show_one(const logs::LogSummary& summary, const Arguments& arguments,
             const LogTextOptions& options) {
  const Status status =
      print(arguments.has("--json") ? json_of(summary) : to_text(summary, options));
  if (!status) return complain(status.error());
  return is_to_fail_on(summary.findings, arguments) ? kFindingToFailOn : kFine;
}

int compare(const std::vector<std::string>& logs, const Arguments& arguments,
            const LogTextOptions& options) {
  std::vector<logs::LogSummary> summaries;
  std::vector<logs::UnreadLog> unread;
  bool is_to_fail = false;
  for (const std::string& log : logs) {
    auto summary = log_summary_of(log);
    if (!summary) {
      if (summary.error().code == ErrorCode::kInterrupted) return complain(summary.error());
      complain(summary.error());
      unread.push_back({log, summary.error().message});
      continue;
    }
    is_to_fail = is_to_fail || is_to_fail_on(summary->findings, arguments);
    summaries.push_back(*std::move(summary));
  }
  if (summaries.empty()) return kUnreadableInput;
  logs::LogComparison comparison = logs::compare_logs(std::move(summaries));
  comparison.unread = std::move(unread);
  const Status status =
      print(arguments.has("--json") ? json_of(comparison) : to_text(comparison, options));
  if (!status) return complain(status.error());
  if (!comparison.unread.empty()) return kUnreadableInput;
  return is_to_fail ? kFindingToFailOn : kFine;
}

int run_analyze(const Arguments& arguments) {
  LogTextOptions options;
  options.width = output_width();
  options.color = chosen_color(arguments);
  const auto top = chosen_top(arguments, options.top);
  if (!top) return complain(top.error());
  options.top = *top;
  const auto logs = chosen_logs(arguments);
  if (!logs) return complain(logs.error());
  if (logs->size() > 1) return compare(*logs, arguments, options);
  const auto summary = log_summary_of(logs->front());
  return summary ? show_one(*summary, arguments, options) : complain(summary.error());
}

}  // namespace

Command analyze_command() {
  Command command;
  command.name = "analyze";
  command.summary = "Summarize the text log of a training run, or compare several";
  command.description =
      "Reads the text log of a monitored run (OUTPUT_DIR/profiles/tensor_profile_*.log), the "
      "output of nvidia-smi --query-gpu=... --format=csv, the lines of DeepSpeed's "
      "see_memory_usage(), or figures such as \"Allocated: 8073.4 MB\". Prints the findings, how "
      "memory changed, and what used it at the end; first, what the log says about memory that ran "
      "out. Several logs are compared in one table.";
  command.positionals = {{"FILE",
                          "A log, a folder (the newest run in or below it), or latest (the same in "
                          "--dir). Default: latest.",
                          Count::kAny}};
  command.options = {
      {"--dir", "", "DIR", "Folder that latest searches. Default: the current folder."},
      {"--top", "", "N", "Rows of each table (default 10)."},
      {"--json", "", "",
       "Print a JSON object (plimsoll schema analyze; for several logs comparison)."},
      fail_on_option(alerts::kAlertIds),
      color_option(),
  };
  command.sections = {
      {"examples",
       {{"plimsoll analyze latest", "the newest run below the current folder"},
        {"plimsoll analyze output/a output/b", "two runs side by side"},
        {"plimsoll analyze run.log --json --fail-on warning", "for scripts and CI"}}}};
  command.run = run_analyze;
  return command;
}

}  // namespace plimsoll::cli
