// plimsoll nsys: the command lines of Nsight Systems that are right for memory, and what they
// found.

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "base/suggestion.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/exit_code.h"
#include "cli/interruption.h"
#include "cli/terminal.h"
#include "nsys/summary.h"

namespace plimsoll::cli {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kSuffix = ".nsys-rep";
// Memory usage is off where nobody asks for it.
const Words& trace_options() {
  static const Words kOptions = {"--trace=cuda,nvtx,osrt", "--cuda-memory-usage=true"};
  return kOptions;
}

Error wrong_use(const std::string& sentence) {
  return make_error(ErrorCode::kInvalidArgument, sentence);
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words stats_line(const std::string& report) {
  Words words = {"nsys", "stats"};
  for (const std::string& name : nsys::nsys_reports()) {
    words.push_back("--report");
    words.push_back(name);
  }
  return words + Words{"--format", "csv", "--output", "-", "--force-export=true", report};
}

// Has programs that Plimsoll records or monitors tell nsys their phases, layers and memory.
constexpr const char* kNvtxVariable = "PLIMSOLL_MONITOR_NVTX";

// What the user asks for, checked.
struct Wish {
  Words command;
  std::string report;  // with its suffix
  bool may_replace = false;
  bool only_prints = false;
  bool with_nvtx = true;
  double attach_s = 0;  // 0: not asked for
  std::string session;
  text::Color color = text::Color::kOff;

  Words output_options() const {
    Words options = {"--output=" + report};
    if (may_replace) options.emplace_back("--force-overwrite=true");
    return options;
  }
};

Result<double> seconds_of(const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  constexpr double kLongest = 86'400;
  if (error != std::errc() || end != text.data() + text.size() || !(seconds > 0) ||
      seconds > kLongest) {
    return wrong_use("--attach-seconds " + text + " is not a number of seconds up to a day");
  }
  return seconds;
}

bool exists(const std::string& path) {
  struct stat told{};
  return ::stat(path.c_str(), &told) == 0;
}

std::string report_name(const Arguments& arguments) {
  std::string name = arguments.value("--output", "plimsoll-" + std::to_string(::getpid()));
  return name.ends_with(kSuffix) ? name : name + kSuffix;
}

Result<Wish> wish_of(const Arguments& arguments) {
  Wish wish;
  wish.command = arguments.values("COMMAND");
  wish.report = report_name(arguments);
  wish.may_replace = arguments.has("--force");
  wish.only_prints = arguments.has("--print");
  wish.with_nvtx = !arguments.has("--no-nvtx") && std::getenv(kNvtxVariable) == nullptr;
  wish.session = arguments.value("--session");
  wish.color = chosen_color(arguments);
  if (arguments.has("--attach-seconds")) {
    PLIMSOLL_TRY_ASSIGN(wish.attach_s, seconds_of(arguments.value("--attach-seconds")));
  }
  const int ways = (wish.attach_s > 0 ? 1 : 0) + (arguments.has("--summarize") ? 1 : 0) +
                   (wish.command.empty() ? 0 : 1);
  if (ways == 0) return wrong_use("no program given after -- (plimsoll nsys --help)");
  if (ways > 1 || (arguments.has("--launch") && wish.command.empty())) {
    return wrong_use(
        "use only one of a COMMAND after --, --attach-seconds and --summarize; --launch needs a "
        "COMMAND (plimsoll nsys --help)");
  }
  if (!arguments.has("--summarize") && !arguments.has("--launch") && !wish.may_replace &&
      !wish.only_prints && exists(wish.report)) {
    return wrong_use(wish.report +
                     " exists; replace it with --force, or name another file with -o");
  }
  return wish;
}

Status need_nsys() {
  if (is_on_path("nsys")) return {};
  return wrong_use(
      "nsys is not installed, or not on PATH: it comes with the CUDA toolkit, as the package "
      "nsight-systems-cli of NVIDIA's repositories, or from "
      "https://developer.nvidia.com/nsight-systems");
}

// "  19548   00:03  Launched  1  profile-18960": the name is the last word.
Words session_names(const std::string& list) {
  Words names;
  std::istringstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    std::string last;
    words >> first;
    for (std::string word; words >> word;) last = word;
    const bool is_row =
        !first.empty() && first.find_first_not_of("0123456789") == std::string::npos;
    if (is_row && !last.empty()) names.push_back(last);
  }
  return names;
}

Result<std::string> find_session() {
  PLIMSOLL_TRY_ASSIGN(const ProgramOutput told, read_program({"nsys", "sessions", "list"}));
  const Words names = session_names(told.out);
  if (names.size() == 1) return names.front();
  if (names.empty()) {
    return wrong_use(
        "nsys has no program to record; it cannot attach to one that was started without it: start "
        "yours with plimsoll nsys --launch -- COMMAND");
  }
  return wrong_use("nsys has several sessions: " + base::joined(names) +
                   "; choose one with --session");
}

// Seconds, or until Ctrl-C.
void wait_for(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const auto ns = static_cast<long>((seconds - static_cast<double>(whole)) * 1e9);
  timespec rest{whole, ns};
  while (!is_interrupted() && ::nanosleep(&rest, &rest) != 0 && errno == EINTR) {
  }
}

// The last line that it said, as its reason.
std::string reason_of(const ProgramOutput& told) {
  std::string text = told.errors.empty() ? told.out : told.errors;
  text.erase(text.find_last_not_of(" \r\n") + 1);
  text = text.substr(text.rfind('\n') + 1);
  return text.empty() ? "exit status " + std::to_string(told.status) : text;
}

Status summarize(const std::string& report, text::Color color) {
  if (!exists(report)) {
    return make_error(ErrorCode::kNotFound, "nsys has written no report " + report);
  }
  PLIMSOLL_TRY_ASSIGN(const ProgramOutput told, read_program(stats_line(report)));
  const nsys::NsysSummary summary = nsys::read_nsys_stats(told.out);
  if (told.status != 0 && summary.tables == 0) {
    return make_error(ErrorCode::kUnsupported,
                      "nsys stats cannot read " + report + ": " + reason_of(told));
  }
  if (summary.tables == 0 && summary.skipped == 0) {
    return make_error(ErrorCode::kUnsupported, "nsys stats printed nothing about " + report +
                                                   " that Plimsoll can read; try nsys stats " +
                                                   report);
  }
  return print(nsys::nsys_summary_text(summary, output_width(), color) + "\n" + report +
               ": open it in nsys-ui for the memory over time (rows Memory usage)\n");
}

// The exit status of what nsys ran, or ours where a summary cannot be had.
int summarize_after(int status, const Wish& wish) {
  const Status summed = summarize(wish.report, wish.color);
  if (status != 0) {
    complain("nsys ended with exit status " + std::to_string(status));
    return status;
  }
  return summed ? kFine : complain(summed.error());
}

// A line that starts the program, as one would type it.
std::string start_line(const Wish& wish, const Words& line) {
  const std::string variable = wish.with_nvtx ? std::string(kNvtxVariable) + "=1 " : "";
  return variable + shell_line(line) + "\n";
}

Result<int> start_program(const Wish& wish, const Words& line) {
  if (wish.with_nvtx) ::setenv(kNvtxVariable, "1", 0);  // which it inherits
  return run_program(line);
}

int profile(const Wish& wish) {
  const Words line =
      Words{"nsys", "profile"} + trace_options() + wish.output_options() + wish.command;
  if (wish.only_prints) {
    const Status printed =
        print(start_line(wish, line) + shell_line(stats_line(wish.report)) + "\n");
    return printed ? kFine : complain(printed.error());
  }
  const auto status = start_program(wish, line);
  return status ? summarize_after(*status, wish) : complain(status.error());
}

// In a session of its own, in which nothing is recorded until somebody asks for it.
int launch(const Wish& wish) {
  const std::string session =
      wish.session.empty() ? "plimsoll-" + std::to_string(::getpid()) : wish.session;
  const Words line =
      Words{"nsys", "launch", "--session-new=" + session} + trace_options() + wish.command;
  if (wish.only_prints) {
    const Status printed = print(start_line(wish, line));
    return printed ? kFine : complain(printed.error());
  }
  const auto status = start_program(wish, line);
  return status ? *status : complain(status.error());
}

int attach(Wish wish) {
  if (wish.session.empty() && wish.only_prints) wish.session = "SESSION";
  if (wish.session.empty()) {
    auto found = find_session();
    if (!found) return complain(found.error());
    wish.session = *found;
  }
  const std::string session = "--session=" + wish.session;
  const Words start = Words{"nsys", "start", session} + wish.output_options();
  const Words stop = {"nsys", "stop", session};
  if (wish.only_prints) {
    std::ostringstream seconds;
    seconds << wish.attach_s;
    const Status printed =
        print(shell_line(start) + "\n" + shell_line({"sleep", seconds.str()}) + "\n" +
              shell_line(stop) + "\n" + shell_line(stats_line(wish.report)) + "\n");
    return printed ? kFine : complain(printed.error());
  }
  const auto started = run_program(start);
  if (!started) return complain(started.error());
  if (*started != 0) {
    complain("nsys start ended with exit status " + std::to_string(*started));
    return *started;
  }
  wait_for(wish.attach_s);
  const auto stopped = run_program(stop);
  return stopped ? summarize_after(*stopped, wish) : complain(stopped.error());
}

int run_nsys(const Arguments& arguments) {
  const auto wish = wish_of(arguments);
  if (!wish) return complain(wish.error());
  if (!wish->only_prints) {
    const Status installed = need_nsys();
    if (!installed) return complain(installed.error());
  }
  if (arguments.has("--summarize")) {
    const Status summed = summarize(arguments.value("--summarize"), wish->color);
    return summed ? kFine : complain(summed.error());
  }
  if (wish->attach_s > 0) return attach(*wish);
  return arguments.has("--launch") ? launch(*wish) : profile(*wish);
}

}  // namespace

Command nsys_command() {
  Command command;
  command.name = "nsys";
  command.summary = "Profile a program's GPU memory with Nsight Systems";
  command.description =
      "Runs the program under NVIDIA's nsys (which must be installed) with the options for memory, "
      "then summarizes its copies and its calls that allocate or free memory. nsys cannot attach "
      "to a running process: start it with --launch, and record some seconds of it later with "
      "--attach-seconds.";
  command.positionals = {{"COMMAND", "Program and its arguments, after --.", Count::kAny}};
  command.options = {
      {"--launch", "", "", "Start COMMAND so that --attach-seconds can record it."},
      {"--attach-seconds", "", "SECONDS", "Record a launched program for this time; it goes on."},
      {"--session", "", "NAME", "Launched program to record; needed if there are several."},
      {"--summarize", "", "REPORT", "Summarize an existing report of nsys."},
      {"--output", "-o", "PATH", "Report file. Default: plimsoll-PID.nsys-rep."},
      {"--force", "", "", "Replace the report if it exists."},
      {"--no-nvtx", "", "", "Do not send phases, layers and memory to nsys."},
      {"--print", "", "", "Print the nsys command lines, and run nothing."},
      color_option(),
  };
  command.sections = {
      {"examples",
       {{"plimsoll nsys -o unet -- python3 train.py", "writes unet.nsys-rep, and summarizes it"},
        {"plimsoll nsys -- plimsoll run train.py", "with its phases, layers and memory"},
        {"plimsoll nsys --launch -- python3 serve.py", "runs it without recording"},
        {"plimsoll nsys --attach-seconds 30", "records 30 seconds of it"},
        {"plimsoll nsys --print -- ./train", "prints the command lines"}}}};
  command.run = run_nsys;
  return command;
}

}  // namespace plimsoll::cli
