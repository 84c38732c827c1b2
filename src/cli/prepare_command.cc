// plimsoll prepare: compiles the adapters ahead of the first recording.

#include "cli/commands.h"
#include "cli/line/exit_code.h"
#include "cli/line/terminal.h"
#include "cli/runs/child_process.h"
#include "cli/runs/python_package.h"

namespace plimsoll::cli {
namespace {

int run_prepare(const Arguments&) {
  const Result<int> status = run_program(package_file("_command/prepare.py"));
  if (!status) return complain(status.error());
  return *status == 0 ? kFine : kUsageError;
}

}  // namespace

Command prepare_command() {
  Command command;
  command.name = "prepare";
  command.summary = "Compile the adapters for the installed torch ahead of the first recording";
  command.description =
      "The adapters that record PyTorch's tensors are compiled once for each version of torch and "
      "Plimsoll, at their first use, which takes about a minute. This command does it beforehand, "
      "for example when an image is built. The compiled files are in PLIMSOLL_CACHE, or "
      "~/.cache/plimsoll.";
  command.sections = {
      {"examples",
       {{"plimsoll prepare", "after an installation or an update of torch"},
        {"PLIMSOLL_CACHE=/shared/plimsoll plimsoll prepare", "once for the nodes of a cluster"}}}};
  command.run = run_prepare;
  return command;
}

}  // namespace plimsoll::cli
