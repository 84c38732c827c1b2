// plimsoll demo: records a small training run that comes with the package, and reports on it.

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/input_file.h"
#include "cli/commands.h"
#include "cli/line/exit_code.h"
#include "cli/line/terminal.h"
#include "cli/runs/child_process.h"
#include "cli/runs/python_package.h"
#include "engine/trace_file.h"
#include "exporters/html/html_exporter.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kDefaultOutput = "plimsoll-demo.plim";

std::string text_of(const std::string& path) {
  const base::InputFile file = base::open_input(path);
  return file == nullptr ? "" : base::read_rest(file.get()).value_or("");
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

struct Outputs {
  std::string trace;
  std::string script;
  std::string page;
};

bool is_page(const std::string& path) {
  return text_of(path).find(exporters::html::kGenerator) != std::string::npos;
}

// Checks that the demo replaces only files of an earlier demo, never other files of the user.
Status check_outputs(const Outputs& outputs, const std::string& text, const Arguments& arguments) {
  const bool may_replace = !arguments.has("--output");
  const std::string* kept = nullptr;
  if (exists(outputs.trace) && !(may_replace && engine::is_trace_file(outputs.trace))) {
    kept = &outputs.trace;
  } else if (exists(outputs.script) && text_of(outputs.script) != text) {
    kept = &outputs.script;
  } else if (exists(outputs.page) && !(may_replace && is_page(outputs.page))) {
    kept = &outputs.page;
  }
  if (kept == nullptr) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    *kept + " exists; name another file with -o (plimsoll demo --help)");
}

// Writes the script next to the trace, so that the user can read and fix the code.
Status write_script(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (file) return {};
  return make_error(ErrorCode::kIo, "cannot write " + path + ": " + std::strerror(errno));
}

Status announce(const std::string& text) { return print(text + "\n"); }

// Returns the path of the recording, or the exit status of the program if it failed.
Result<int> record(const std::string& path, const std::string& script) {
  const std::vector<std::string> words = {"run", "--force", "-o", path, script};
  PLIMSOLL_TRY(
      announce("# Train a small model that has one mistake, for 30 steps on the CPU, and record "
               "its memory.\n# The first time, the adapter for the installed torch is compiled "
               "(about a minute), unless the package has it.\n$ plimsoll " +
               shell_line(words)));
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), words.begin(), words.end());
  return run_program(command);
}

int report(Arguments arguments, const std::string& path) {
  arguments.set("FILE", {path});
  return find_command("report")->run(arguments);
}

// Opens the page only on a desktop, and only if stdout is a terminal.
void open_in_browser(const std::string& page) {
  if (::isatty(STDOUT_FILENO) == 0 || (!is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY"))) return;
  // On some desktops, xdg-open runs until the browser is closed.
  (void)run_program({"sh", "-c", "xdg-open \"$0\" >/dev/null 2>&1 &", page});
}

Result<int> report_on(const Outputs& outputs) {
  PLIMSOLL_TRY(announce("\n# What is wrong, and what fills the memory?\n$ plimsoll " +
                        shell_line({"report", outputs.trace}) + "\n"));
  if (const int status = report({}, outputs.trace); status != kFine) return status;
  Arguments arguments;
  arguments.set("--html", {outputs.page});
  std::vector<std::string> words = {"report", outputs.trace, "--html", outputs.page};
  if (exists(outputs.page)) {
    arguments.set("--force", {});
    words.emplace_back("--force");
  }
  PLIMSOLL_TRY(announce("\n# The same as a page with charts, for any browser.\n$ plimsoll " +
                        shell_line(words)));
  if (const int status = report(arguments, outputs.trace); status != kFine) return status;
  open_in_browser(outputs.page);
  PLIMSOLL_TRY(announce("\n# The recording is " + outputs.trace + ", the page " + outputs.page +
                        ",\n# and the script " + outputs.script +
                        ". Fix the mistake and run it again:\n# plimsoll run " +
                        shell_line({outputs.script})));
  return kFine;
}

Result<int> demonstrate(const Arguments& arguments) {
  const std::string path = arguments.value("--output", kDefaultOutput);
  const auto sibling = [&](const char* suffix) {
    return std::filesystem::path(path).replace_extension(suffix).string();
  };
  const Outputs outputs = {path, sibling(".py"), sibling(".html")};
  PLIMSOLL_TRY_ASSIGN(const std::string folder, package_folder("torch"));
  const std::string text = text_of(folder + "/demo_training.py");
  PLIMSOLL_TRY(check_outputs(outputs, text, arguments));
  if (!exists(outputs.script)) PLIMSOLL_TRY(write_script(outputs.script, text));
  PLIMSOLL_TRY_ASSIGN(const int status, record(outputs.trace, outputs.script));
  return status == kFine ? report_on(outputs) : Result<int>(status);
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
      "Records a small training run that has a mistake, on the CPU, in a few seconds, and reports "
      "on it: prints each command, and runs it. The report as a page opens in the browser of a "
      "desktop. It needs torch.";
  command.options = {{"--output", "-o", "PATH",
                      "The recording; an earlier one is replaced. The script and the page are next "
                      "to it (.py, .html). Default: plimsoll-demo.plim."}};
  command.sections = {
      {"examples", {{"plimsoll demo", "records plimsoll-demo.py into plimsoll-demo.plim"}}}};
  command.run = run_demo;
  return command;
}

}  // namespace plimsoll::cli
