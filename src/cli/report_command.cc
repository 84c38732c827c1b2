// plimsoll report: verdict and tables for one or several recordings.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "cli/line/common_options.h"
#include "cli/line/exit_code.h"
#include "cli/line/progress_bar.h"
#include "cli/line/terminal.h"
#include "cli/report_page.h"
#include "cli/runs/child_process.h"
#include "comparison/ranks.h"
#include "engine/session_state.h"
#include "engine/source_lines.h"
#include "exporters/exporter.h"
#include "exporters/terminal/brief.h"
#include "exporters/terminal/over_time.h"
#include "exporters/terminal/ranks.h"
#include "exporters/terminal/report.h"
#include "plimsoll/session.h"
#include "text/layout.h"

namespace plimsoll::cli {
namespace {

constexpr std::size_t kWidestTables = 200;
constexpr std::size_t kRowsShown = 10;  // rows per table, unless the user gives --top

struct ReportQuestion {
  std::vector<std::string> files;
  plimsoll::Question ask;
  exporters::terminal::TextOptions text;
  bool is_json = false;
  bool is_brief = false;  // on one screen
  bool has_chart = false;
};

Result<ReportQuestion> make_question(const Arguments& arguments) {
  ReportQuestion question;
  question.files = arguments.values("FILE");
  question.ask.device = arguments.value("--device");
  question.ask.at =
      arguments.value("--at", arguments.has("--html") ? exporters::kPointOfPages : "peak");
  question.text.device = question.ask.device;
  question.is_json = arguments.has("--json");
  question.is_brief =
      std::ranges::none_of(std::array{"--full", "--by", "--top", "--at"},
                           [&](const char* option) { return arguments.has(option); });
  question.has_chart = can_draw_pages() && !arguments.has("--no-chart");
  for (const char* const option : {"--json", "--by", "--full"}) {
    if (!arguments.has("--html") || !arguments.has(option)) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      std::string("--html cannot be combined with ") + option);
  }
  for (const char* const option : {"--force", "--against"}) {
    if (arguments.has("--html") || !arguments.has(option)) continue;
    return make_error(
        ErrorCode::kInvalidArgument,
        std::string(option) + " applies only with --html" +
            (arguments.has("--force") ? "" : "; plimsoll diff BEFORE AFTER compares in text"));
  }
  if (arguments.has("--against") && question.files.size() > 1) {
    return make_error(ErrorCode::kInvalidArgument, "--against compares one FILE, not several");
  }
  question.text.color = chosen_color(arguments);
  question.text.width = output_width(kWidestTables);
  PLIMSOLL_TRY_ASSIGN(question.text.top, chosen_top(arguments, kRowsShown));
  if (arguments.has("--top")) question.ask.top = question.text.top;
  if (arguments.has("--by")) {
    question.text.has_titles_only = !arguments.has("--full");
    question.text.tables.clear();
    for (const std::string& name : arguments.values("--by")) {
      question.text.tables.push_back(
          *exporters::terminal::table_named(name));  // checked as a choice
    }
  }
  return question;
}

struct Answer {
  std::string text;
  report::Report report;
  int exit_code = kFine;
};

std::string full_command(const std::string& file, const std::string& device) {
  std::vector<std::string> words = {"plimsoll", "report", "--full"};
  if (!device.empty()) words.insert(words.end(), {"--device", device});
  words.push_back(file.starts_with("-") ? "./" + file : file);
  return shell_line(words);
}

Result<Answer> answer(const std::string& path, const ReportQuestion& question,
                      const Arguments& arguments) {
  const auto began = std::chrono::steady_clock::now();
  ProgressBar bar(path);
  const ProgressCallback progress = [&](std::string_view stage, std::uint64_t done,
                                        std::uint64_t total) {
    return bar.advance(stage, done, total);
  };
  PLIMSOLL_TRY_ASSIGN(const Session session, Session::open(path, {progress}));
  PLIMSOLL_TRY_ASSIGN(const Report report, session.ask(question.ask, progress));
  bar.clear();
  Answer answer;
  answer.report = report.value();
  if (question.is_json) {
    answer.text = report.json();
  } else if (question.is_brief) {
    exporters::terminal::TextOptions how = question.text;
    if (path != "-") how.full_command = full_command(answer.report.source.path, how.device);
    answer.text = exporters::terminal::to_brief_text(answer.report, how);
  } else {
    exporters::terminal::TextOptions how = question.text;
    how.elapsed_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - began).count();
    engine::SourceLines sources(session.state().trace, session.state().lines);
    how.source_of = [&](const std::string& line) { return sources.text_of(line); };
    if (question.has_chart) {
      how.chart_of = [&](const report::DeviceReport& device) {
        return exporters::terminal::over_time_text(session.state().trace, session.state().lines,
                                                   device, {how.width, how.color});
      };
    }
    answer.text = exporters::terminal::to_text(answer.report, how);
  }
  if (is_to_fail_on(answer.report.findings, arguments)) answer.exit_code = kFindingToFailOn;
  return answer;
}

std::string report_heading(const std::string& text, const ReportQuestion& question) {
  return text::styled("== " + text::printable(text) + " ==", text::Style::kBold,
                      question.text.color) +
         "\n\n";
}

// Separates the answers of several files: by headings, or as a JSON array.
class Sequence {
 public:
  explicit Sequence(const ReportQuestion& question) : question_(question) {}

  std::string before(const std::string& path) {
    const bool is_first = std::exchange(is_first_, false);
    if (question_.files.size() == 1) return {};
    if (question_.is_json) return is_first ? "[\n" : ",\n";
    return (is_first ? "" : "\n\n") + report_heading(path, question_);
  }
  std::string end() const {
    if (question_.files.size() == 1 || !question_.is_json) return {};
    return is_first_ ? "[]\n" : "]\n";
  }

 private:
  const ReportQuestion& question_;
  bool is_first_ = true;
};

// The comparison of the ranks of a run, then the report of the most important rank.
std::string ranks_text(const comparison::RankComparison& comparison,
                       const std::vector<report::Report>& reports, const std::vector<Answer>& ranks,
                       const ReportQuestion& question) {
  std::string text = report_heading(std::to_string(ranks.size()) + " ranks", question);
  text += comparison.findings.empty()
              ? text::styled("The ranks are alike.", text::Style::kGood, question.text.color) + "\n"
              : exporters::terminal::findings_text(comparison.findings, question.text);
  text += "\n" + exporters::terminal::ranks_table(comparison, reports, question.text) + "\n\n";
  const Answer& first = ranks[comparison.first_to_read];
  text += report_heading(first.report.source.path, question) + first.text;
  return text + "\nFor the report of another rank: plimsoll report FILE.\n";
}

// Returns the most severe exit code of all files. An unreadable file does not stop the other files.
int run_report(const Arguments& arguments) {
  const auto question = make_question(arguments);
  if (!question) return complain(question.error());
  if (arguments.has("--html")) return write_report_page(arguments, question->ask);
  Sequence sequence(*question);
  std::vector<Answer> ranks;  // filled until all files are read
  int exit_code = kFine;
  std::int64_t place = 0;
  for (const std::string& path : question->files) {
    auto answered = answer(path, *question, arguments);
    const std::int64_t rank = place++;
    if (!answered) {
      exit_code = std::max(exit_code, complain(answered.error()));
      if (exit_code == kInterrupted) return exit_code;
      continue;
    }
    exit_code = std::max(exit_code, answered->exit_code);
    if (arguments.has("--ranks")) answered->report.source.rank = rank;
    if (answered->report.source.rank && question->files.size() > 1 && !question->is_json) {
      ranks.push_back(std::move(*answered));
      continue;
    }
    if (Status status = print(sequence.before(path) + answered->text); !status) {
      return complain(status.error());
    }
  }
  std::vector<report::Report> reports;
  for (const Answer& rank : ranks) reports.push_back(rank.report);
  std::string rest;
  if (const auto comparison = comparison::compare_ranks(reports)) {
    rest = ranks_text(*comparison, reports, ranks, *question);
    if (is_to_fail_on(comparison->findings, arguments)) {
      exit_code = std::max(exit_code, kFindingToFailOn);
    }
  } else {
    for (const Answer& rank : ranks) rest += sequence.before(rank.report.source.path) + rank.text;
  }
  if (Status status = print(rest + sequence.end()); !status) return complain(status.error());
  return exit_code;
}

}  // namespace

Command report_command() {
  Command command;
  command.name = "report";
  command.summary = "Explain a recording: findings first, then what fills memory";
  command.description =
      "Reads recordings of Plimsoll, PyTorch memory snapshots (torch.cuda.memory._dump_snapshot, "
      "or the HTML of trace_plot) and torch.profiler traces, also compressed with gzip. Prints the "
      "findings and what filled each device, on one screen. The format is detected from the "
      "content, and no file can run code.";
  command.positionals = {recording_positional(
      "Recording; several are reported one after the other. - is standard input.",
      Count::kOneOrMore)};
  command.options = {
      {"--by", "", "TABLE",
       "Tables to print; several as a,b. Default: line; for native recordings category, layer, "
       "line. Of the verdicts, only the titles are printed, unless with --full.",
       exporters::terminal::table_names(), true},
      {"--at", "", "POINT",
       "Point in time of the tables: peak (default), start, end, oom (the last failure; oom:1 is "
       "the first), failure-or-peak (default of --html: the failure that ended the program, else "
       "the peak), step:9 (the peak within that step), an event number, or a time: 1.5s, 300ms, "
       "20us."},
      {"--full", "", "",
       "Print everything, not only what fits on one screen. --by, --top and --at do so, too."},
      {"--top", "", "N", "Rows of each table (default 10; 20 with --json)."},
      {"--ranks", "", "",
       "The files are the ranks of one run, in this order. By default, the rank is read from the "
       "recording, or from the name: rank3.pickle."},
      {"--no-chart", "", "", "Leave out the chart of memory over time."},
      {"--device", "", "DEVICE", "Only this device: 0, cuda:1, cpu."},
      {"--json", "", "", "Print a JSON object (plimsoll schema); for several files an array."},
      {"--html", "", "PATH",
       "Write the report as one HTML page, which needs no network. - is standard output."},
      {"--against", "", "BEFORE", "With --html: compare with this earlier recording or digest."},
      {"--force", "", "", "Replace the page if it exists."},
      fail_on_option(report::kFindingIds),
      color_option(),
  };
  command.sections = {
      {"examples",
       {{"plimsoll report snapshot.pickle", "findings, and what fills the peak"},
        {"plimsoll report snapshot.pickle --full", "the same with all tables"},
        {"plimsoll report latest", "the newest recording below the current folder"},
        {"plimsoll report snapshot.pickle --by stack --top 3", "whole stacks"},
        {"plimsoll report snapshot.pickle --at oom --by size", "when it ran out of memory"},
        {"plimsoll report plimsoll-*-rank*", "the ranks of a run side by side"},
        {"plimsoll report *.pickle --json --fail-on critical", "for scripts and CI"}}}};
  command.run = run_report;
  return command;
}

}  // namespace plimsoll::cli
