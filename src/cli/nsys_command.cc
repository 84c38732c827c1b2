// plimsoll nsys: runs Nsight Systems with options that record memory, and summarizes the results.

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "base/suggestion.h"
#include "cli/commands.h"
#include "cli/line/common_options.h"
#include "cli/line/exit_code.h"
#include "cli/line/interruption.h"
#include "cli/line/terminal.h"
#include "cli/runs/child_process.h"
#include "nsys/summary.h"

namespace plimsoll::cli {
namespace {

using CommandLine = std::vector<std::string>;

constexpr const char* kSuffix = ".nsys-rep";
// nsys does not trace memory usage by default.
const CommandLine& trace_options() {
  static const CommandLine kOptions = {"--trace=cuda,nvtx,osrt", "--cuda-memory-usage=true"};
  return kOptions;
}

Error usage_error(const std::string& sentence) {
  return make_error(ErrorCode::kInvalidArgument, sentence);
}

CommandLine operator+(CommandLine words, const CommandLine& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

CommandLine stats_line(const std::string& report) {
  CommandLine words = {"nsys", "stats"};
  for (const std::string& name : nsys::nsys_reports()) {
    words.push_back("--report");
    words.push_back(name);
  }
  return words + CommandLine{"--format", "csv", "--output", "-", "--force-export=true", report};
}

// Makes programs that Plimsoll records or monitors pass their phases, layers and memory to nsys.
constexpr const char* kNvtxVariable = "PLIMSOLL_MONITOR_NVTX";

// What the user asked for, after all checks.
struct Request {
  CommandLine command;
  std::string report;  // including its suffix
  bool may_replace = false;
  bool only_prints = false;
  bool with_nvtx = true;
  double attach_s = 0;  // 0: not requested
  std::string session;
  text::Color color = text::Color::kOff;

  CommandLine output_options() const {
    CommandLine options = {"--output=" + report};
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
    return usage_error("--attach-seconds " + text + " is not a number of seconds up to a day");
  }
  return seconds;
}

bool is_there(const std::string& path) {
  struct stat reported{};
  return ::stat(path.c_str(), &reported) == 0;
}

std::string report_name(const Arguments& arguments) {
  std::string name = arguments.value("--output", "plimsoll-" + std::to_string(::getpid()));
  return name.ends_with(kSuffix) ? name : name + kSuffix;
}

Result<Request> request_of(const Arguments& arguments) {
  Request request;
  request.command = arguments.values("COMMAND");
  request.report = report_name(arguments);
  request.may_replace = arguments.has("--force");
  request.only_prints = arguments.has("--print");
  request.with_nvtx = !arguments.has("--no-nvtx") && std::getenv(kNvtxVariable) == nullptr;
  request.session = arguments.value("--session");
  request.color = chosen_color(arguments);
  if (arguments.has("--attach-seconds")) {
    PLIMSOLL_TRY_ASSIGN(request.attach_s, seconds_of(arguments.value("--attach-seconds")));
  }
  const int ways = (request.attach_s > 0 ? 1 : 0) + (arguments.has("--summarize") ? 1 : 0) +
                   (request.command.empty() ? 0 : 1);
  if (ways == 0) return usage_error("no program given after -- (plimsoll nsys --help)");
  if (ways > 1 || (arguments.has("--launch") && request.command.empty())) {
    return usage_error(
        "use only one of a COMMAND after --, --attach-seconds and --summarize; --launch needs a "
        "COMMAND (plimsoll nsys --help)");
  }
  if (!arguments.has("--summarize") && !arguments.has("--launch") && !request.may_replace &&
      !request.only_prints && is_there(request.report)) {
    return usage_error(request.report +
                       " exists; replace it with --force, or name another file with -o");
  }
  return request;
}

Status need_nsys() {
  if (is_on_path("nsys")) return {};
  return usage_error(
      "nsys is not installed, or not on PATH: it comes with the CUDA toolkit, as the package "
      "nsight-systems-cli of NVIDIA's repositories, or from "
      "https://developer.nvidia.com/nsight-systems");
}

// "  19548   00:03  Launched  1  profile-18960": the name is the last column.
CommandLine session_names(const std::string& list) {
  CommandLine names;
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
  PLIMSOLL_TRY_ASSIGN(const ProgramOutput reported, read_program({"nsys", "sessions", "list"}));
  const CommandLine names = session_names(reported.out);
  if (names.size() == 1) return names.front();
  if (names.empty()) {
    return usage_error(
        "nsys has no program to record; it cannot attach to one that was started without it: start "
        "yours with plimsoll nsys --launch -- COMMAND");
  }
  return usage_error("nsys has several sessions: " + base::joined(names) +
                     "; choose one with --session");
}

// Sleeps for this many seconds, or until Ctrl-C.
void sleep_for(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const auto ns = static_cast<long>((seconds - static_cast<double>(whole)) * 1e9);
  const timespec rest{whole, ns};
  sigset_t interruption;
  sigset_t before;
  sigemptyset(&interruption);
  sigaddset(&interruption, SIGINT);
  // Only ppoll() unblocks the signal, so that none is missed between the check and the wait.
  ::pthread_sigmask(SIG_BLOCK, &interruption, &before);
  if (!is_interrupted()) ::ppoll(nullptr, 0, &rest, &before);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// The last line of the output, as the reason of a failure.
std::string reason_of(const ProgramOutput& reported) {
  std::string text = reported.errors.empty() ? reported.out : reported.errors;
  text.erase(text.find_last_not_of(" \r\n") + 1);
  text = text.substr(text.rfind('\n') + 1);
  return text.empty() ? "exit status " + std::to_string(reported.status) : text;
}

Status summarize(const std::string& report, text::Color color) {
  if (!is_there(report)) {
    return make_error(ErrorCode::kNotFound, "nsys has written no report " + report);
  }
  PLIMSOLL_TRY_ASSIGN(const ProgramOutput reported, read_program(stats_line(report)));
  const nsys::NsysSummary summary = nsys::read_nsys_stats(reported.out);
  if (reported.status != 0 && summary.tables == 0) {
    return make_error(ErrorCode::kUnsupported,
                      "nsys stats cannot read " + report + ": " + reason_of(reported));
  }
  if (summary.tables == 0 && summary.skipped == 0) {
    return make_error(ErrorCode::kUnsupported, "nsys stats printed nothing about " + report +
                                                   " that Plimsoll can read; try nsys stats " +
                                                   report);
  }
  return print(nsys::nsys_summary_text(summary, output_width(), color) + "\n" + report +
               ": open it in nsys-ui for the memory over time (rows Memory usage)\n");
}

// Returns the exit status of what nsys ran, or our own if there is no summary.
int summarize_after(int status, const Request& request) {
  const Status summed = summarize(request.report, request.color);
  if (status != 0) {
    complain("nsys ended with exit status " + std::to_string(status));
    return status;
  }
  return summed ? kFine : complain(summed.error());
}

// The command line that starts the program, as typed in a shell.
std::string start_line(const Request& request, const CommandLine& line) {
  const std::string variable = request.with_nvtx ? std::string(kNvtxVariable) + "=1 " : "";
  return variable + shell_line(line) + "\n";
}

Result<int> start_program(const Request& request, const CommandLine& line) {
  if (request.with_nvtx) ::setenv(kNvtxVariable, "1", 0);  // nsys inherits it
  return run_program(line);
}

int profile(const Request& request) {
  const CommandLine line =
      CommandLine{"nsys", "profile"} + trace_options() + request.output_options() + request.command;
  if (request.only_prints) {
    const Status printed =
        print(start_line(request, line) + shell_line(stats_line(request.report)) + "\n");
    return printed ? kFine : complain(printed.error());
  }
  const auto status = start_program(request, line);
  return status ? summarize_after(*status, request) : complain(status.error());
}

// Starts a session that records nothing until requested.
int launch(const Request& request) {
  const std::string session =
      request.session.empty() ? "plimsoll-" + std::to_string(::getpid()) : request.session;
  const CommandLine line =
      CommandLine{"nsys", "launch", "--session-new=" + session} + trace_options() + request.command;
  if (request.only_prints) {
    const Status printed = print(start_line(request, line));
    return printed ? kFine : complain(printed.error());
  }
  const auto status = start_program(request, line);
  return status ? *status : complain(status.error());
}

int attach(Request request) {
  if (request.session.empty() && request.only_prints) request.session = "SESSION";
  if (request.session.empty()) {
    auto found = find_session();
    if (!found) return complain(found.error());
    request.session = *found;
  }
  const std::string session = "--session=" + request.session;
  const CommandLine start = CommandLine{"nsys", "start", session} + request.output_options();
  const CommandLine stop = {"nsys", "stop", session};
  if (request.only_prints) {
    std::ostringstream seconds;
    seconds << request.attach_s;
    const Status printed =
        print(shell_line(start) + "\n" + shell_line({"sleep", seconds.str()}) + "\n" +
              shell_line(stop) + "\n" + shell_line(stats_line(request.report)) + "\n");
    return printed ? kFine : complain(printed.error());
  }
  const auto started = run_program(start);
  if (!started) return complain(started.error());
  if (*started != 0) {
    complain("nsys start ended with exit status " + std::to_string(*started));
    return *started;
  }
  sleep_for(request.attach_s);
  const auto stopped = run_program(stop);
  return stopped ? summarize_after(*stopped, request) : complain(stopped.error());
}

int run_nsys(const Arguments& arguments) {
  const auto request = request_of(arguments);
  if (!request) return complain(request.error());
  if (!request->only_prints) {
    const Status installed = need_nsys();
    if (!installed) return complain(installed.error());
  }
  if (arguments.has("--summarize")) {
    const Status summed = summarize(arguments.value("--summarize"), request->color);
    return summed ? kFine : complain(summed.error());
  }
  if (request->attach_s > 0) return attach(*request);
  return arguments.has("--launch") ? launch(*request) : profile(*request);
}

}  // namespace

Command nsys_command() {
  Command command;
  command.name = "nsys";
  command.summary = "Profile a program's GPU memory with Nsight Systems";
  command.description =
      "Runs the program under NVIDIA's nsys with the options for memory, then summarizes its "
      "copies and its calls that allocate or free memory. nsys cannot attach to a running process: "
      "start it with --launch, and record some seconds of it later with --attach-seconds.";
  command.positionals = {{"COMMAND", "Program and its arguments, after --.", Count::kAny}};
  command.options = {
      {"--launch", "", "", "Start COMMAND so that --attach-seconds can record it."},
      {"--attach-seconds", "", "SECONDS",
       "Record a launched program for this time; the program continues."},
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
       {
           {"plimsoll nsys -o unet -- python3 train.py", "writes unet.nsys-rep, and summarizes it"},
           {"plimsoll nsys -- plimsoll run train.py", "with its phases, layers and memory"},
           {"plimsoll nsys --launch -- python3 serve.py", "runs it without recording"},
           {"plimsoll nsys --attach-seconds 30", "records 30 seconds of it"},
       }}};
  command.run = run_nsys;
  return command;
}

}  // namespace plimsoll::cli
