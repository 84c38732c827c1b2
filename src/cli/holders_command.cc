// plimsoll holders: what holds the live memory, of a recording or of a running program.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "cli/commands.h"
#include "cli/line/common_options.h"
#include "cli/line/exit_code.h"
#include "cli/line/interruption.h"
#include "cli/line/terminal.h"
#include "exporters/terminal/holders.h"
#include "format/block.h"
#include "live/live_status.h"
#include "plimsoll/session.h"
#include "probes/system_files.h"
#include "report/report.h"

namespace plimsoll::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenLooks{50};
constexpr std::chrono::seconds kUntilNotice{2};
constexpr std::size_t kWidest = 120;

std::optional<int> pid_of(const std::string& text) {
  int pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  const bool is_pid = error == std::errc() && end == text.data() + text.size() && pid > 0;
  return is_pid ? std::optional(pid) : std::nullopt;
}

Result<std::chrono::seconds> patience_of(const Arguments& arguments) {
  const std::string text = arguments.value("--timeout", "60");
  const auto seconds = pid_of(text);
  if (seconds) return std::chrono::seconds(*seconds);
  return make_error(ErrorCode::kInvalidArgument,
                    "--timeout " + text + " is not a whole number of seconds, 1 or more");
}

Result<live::LiveStatusReader> reader_of(int pid) {
  for (const live::LiveStatusPlace& place : live::find_live_statuses()) {
    if (place.pid != pid) continue;
    auto reader = live::LiveStatusReader::open(place);
    if (reader || reader.error().code != ErrorCode::kNotFound) return reader;
  }
  return make_error(ErrorCode::kNotFound,
                    "process " + std::to_string(pid) +
                        " is not recorded: start it with plimsoll run, or with plimsoll.record() "
                        "in its code (plimsoll top lists what is)");
}

// Waits until the process has looked for holders, at the end of a step.
Status wait_for_answer(live::LiveStatusReader& process, std::chrono::seconds patience) {
  PLIMSOLL_TRY_ASSIGN(const std::int64_t request, process.ask_for_holders());
  const std::string name = "process " + std::to_string(process.pid());
  const Clock::time_point began = Clock::now();
  bool is_noticed = false;
  while (!process.has_holders(request)) {
    const auto waited = Clock::now() - began;
    if (is_interrupted()) return make_error(ErrorCode::kInterrupted, "interrupted");
    if (!process.is_alive()) return make_error(ErrorCode::kNotFound, name + " has ended");
    if (waited > patience) {
      return make_error(ErrorCode::kNotFound,
                        name + " has not answered in " + std::to_string(patience.count()) +
                            " s: it looks for holders when a step ends (an optimizer step, "
                            "plimsoll.step(), or step() of its monitor), with the compiled adapter "
                            "and, if it is recorded, in the mode full");
    }
    if (waited > kUntilNotice && !std::exchange(is_noticed, true)) {
      complain(name + " looks for holders when its current step ends");
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return {};
}

bool is_recording(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return false;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::array<std::byte, format::kMagic.size()> head{};
  const ssize_t size = ::read(file, head.data(), head.size());
  ::close(file);
  return size == static_cast<ssize_t>(head.size()) && format::has_magic(head);
}

// The recording that the process writes, or the answer of its monitor, by a path that works even if
// the file has been removed. Empty if there is none.
std::string open_recording(int pid) {
  std::string path;
  const std::string files = "/proc/" + std::to_string(pid) + "/fd";
  for (const std::string& file : probes::list_system_folder(files)) {
    if (is_recording(files + "/" + file)) path = files + "/" + file;
  }
  return path;
}

Result<std::string> recording_of(int pid, std::chrono::seconds patience) {
  constexpr std::chrono::seconds kUntilWritten{2};  // by a monitor, after its walk
  PLIMSOLL_TRY_ASSIGN(live::LiveStatusReader process, reader_of(pid));
  PLIMSOLL_TRY(wait_for_answer(process, patience));
  std::string path = open_recording(pid);
  for (const auto began = Clock::now(); path.empty() && Clock::now() - began < kUntilWritten;) {
    std::this_thread::sleep_for(kBetweenLooks);
    path = open_recording(pid);
  }
  if (!path.empty()) return path;
  return make_error(ErrorCode::kNotFound,
                    "process " + std::to_string(pid) + " has no recording that can be read here");
}

Result<std::string> answer(const Arguments& arguments) {
  std::string path = arguments.value("WHAT");
  if (const auto pid = pid_of(path)) {
    PLIMSOLL_TRY_ASSIGN(const std::chrono::seconds patience, patience_of(arguments));
    PLIMSOLL_TRY_ASSIGN(path, recording_of(*pid, patience));
  }
  PLIMSOLL_TRY_ASSIGN(const Session session, Session::open(path));
  exporters::terminal::TextOptions how;
  how.width = output_width(kWidest);
  how.color = chosen_color(arguments);
  Question question;
  question.at = "end";
  PLIMSOLL_TRY_ASSIGN(Report report, session.ask(question));
  std::string text;
  if (report.value().tables.holders.empty()) {
    // Local variables of a function that has returned are gone at the end.
    question.at = "peak";
    PLIMSOLL_TRY_ASSIGN(report, session.ask(question));
    if (!report.value().tables.holders.empty()) {
      text = "No holder is known of what is live at the end. At the peak:\n\n";
    }
  }
  return text + exporters::terminal::holders_text(report.value(), how);
}

int run_holders(const Arguments& arguments) {
  const Result<std::string> text = answer(arguments);
  if (!text) return complain(text.error());
  const Status printed = print(*text);
  return printed ? kFine : complain(printed.error());
}

}  // namespace

Command holders_command() {
  Command command;
  command.name = "holders";
  command.summary = "Show what holds the live memory, of a recording or of a running program";
  command.description =
      "Prints the references from the program's modules, functions and exceptions to its live "
      "tensors as a tree, with the bytes that each holds, and the edit that frees them: of a "
      "running program at the end of its current step, of a file at its end or, if nothing is live "
      "then, at the peak.";
  command.positionals = {{"WHAT", "Process id, or a recording.", Count::kOne, Takes::kRecording}};
  command.options = {{"--timeout", "", "SECONDS", "How long to wait for a process (default 60)."},
                     color_option()};
  command.sections = {{"examples",
                       {
                           {"plimsoll holders 4711", "a running program"},
                       }}};
  command.run = run_holders;
  return command;
}

}  // namespace plimsoll::cli
