// plimsoll demo: records a small training run that comes with the package, and reports on it.

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/python_package.h"
#include "cli/terminal.h"
#include "engine/trace_file.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kDefaultOutput = "plimsoll-demo.plim";

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// The user's files are kept; files of an earlier demo are replaced.
Status check_outputs(const std::string& trace, const std::string& script, const std::string& text,
                     const Arguments& arguments) {
  const bool is_replaced = !arguments.has("--output") && engine::is_trace_file(trace);
  const bool is_trace_kept = exists(trace) && !is_replaced;
  if (!is_trace_kept && (!exists(script) || text_of(script) == text)) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    (is_trace_kept ? trace : script) +
                        " exists; name another file with -o (plimsoll demo --help)");
}

// Next to the trace, so that the user can read and fix the code.
Status write_script(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (file) return {};
  return make_error(ErrorCode::kIo, "cannot write " + path + ": " + std::strerror(errno));
}

Status announce(const std::string& text) { return print(text + "\n"); }

// Returns the recording, or the exit status of the program if it failed.
Result<int> record(const std::string& path, const std::string& script) {
  const std::vector<std::string> words = {"run", "--force", "-o", path, script};
  PLIMSOLL_TRY(
      announce("# Train a small model that has one mistake, for 30 steps on the CPU, and record "
               "its memory.\n# The first time, the adapter for the installed torch is compiled "
               "(about 20 seconds).\n$ plimsoll " +
               shell_line(words)));
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), words.begin(), words.end());
  return run_program(command);
}

Result<int> report_on(const std::string& path, const std::string& script) {
  PLIMSOLL_TRY(announce("\n# What is wrong, and what fills the memory?\n$ plimsoll " +
                        shell_line({"report", path}) + "\n"));
  Arguments arguments;
  arguments.set("FILE", {path});
  const int status = find_command("report")->run(arguments);
  if (status != kFine) return status;
  PLIMSOLL_TRY(announce("\n# The recording is " + path + ", and the script " + script +
                        ". Fix the mistake and run it again:\n# plimsoll run " +
                        shell_line({script})));
  return kFine;
}

Result<int> demonstrate(const Arguments& arguments) {
  const std::string path = arguments.value("--output", kDefaultOutput);
  const std::string script = std::filesystem::path(path).replace_extension(".py").string();
  PLIMSOLL_TRY_ASSIGN(const std::string folder, package_folder("torch"));
  const std::string text = text_of(folder + "/demo_training.py");
  PLIMSOLL_TRY(check_outputs(path, script, text, arguments));
  if (!exists(script)) PLIMSOLL_TRY(write_script(script, text));
  PLIMSOLL_TRY_ASSIGN(const int status, record(path, script));
  return status == kFine ? report_on(path, script) : Result<int>(status);
}

int run_demo(const Arguments& arguments) {
  const Result<int> status = demonstrate(arguments);
  return status ? *status : complain(status.error());
}

}  // namespace

Command demo_command() {
  Command command;
  command.name = "demo";
  command.summary = "Record a small training run that has a mistake, and report on it";
  command.description =
      "Demonstrates plimsoll run and plimsoll report in a few seconds: prints each command, and "
      "runs it. The training script is part of the Python package, uses only the CPU and downloads "
      "nothing. It needs torch.";
  command.options = {
      {"--output", "-o", "PATH",
       "Trace file. The script is written next to it, with the suffix .py; both are kept. Default: "
       "plimsoll-demo.plim in the current folder, where an earlier one is replaced."}};
  command.sections = {
      {"examples", {{"plimsoll demo", "records plimsoll-demo.py into plimsoll-demo.plim"}}}};
  command.run = run_demo;
  return command;
}

}  // namespace plimsoll::cli
