// plimsoll enable and plimsoll disable: whether PLIMSOLL=1 records programs that do not import
// plimsoll.

#include <string>

#include "cli/commands.h"
#include "cli/line/exit_code.h"
#include "cli/line/terminal.h"
#include "cli/runs/child_process.h"
#include "cli/runs/python_package.h"

namespace plimsoll::cli {
namespace {

int change(const std::string& word) {
  std::vector<std::string> words = package_file("_command/enable.py");
  words.push_back(word);
  const Result<int> status = run_program(words);
  if (!status) return complain(status.error());
  return *status == 0 ? kFine : kUsageError;
}

int run_enable(const Arguments&) { return change("enable"); }
int run_disable(const Arguments&) { return change("disable"); }

}  // namespace

Command enable_command() {
  Command command;
  command.name = "enable";
  command.summary = "Let PLIMSOLL=1 record programs that do not import plimsoll";
  command.description =
      "Writes plimsoll-enable.pth into the site-packages of the virtual environment of plimsoll. "
      "From then on, a Python of that environment started with PLIMSOLL=1 records as soon as it "
      "imports torch. Without PLIMSOLL=1 the file does nothing.";
  command.sections = {{"examples",
                       {{"plimsoll enable", "once"},
                        {"PLIMSOLL=1 PLIMSOLL_OUT=run.plim torchrun train.py",
                         "records each rank into its own file"}}}};
  command.run = run_enable;
  return command;
}

Command disable_command() {
  Command command;
  command.name = "disable";
  command.summary = "Undo plimsoll enable";
  command.description = "Removes plimsoll-enable.pth.";
  command.run = run_disable;
  return command;
}

}  // namespace plimsoll::cli
