#include "cli/runs/linked_program_run.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/line/exit_code.h"
#include "cli/line/terminal.h"
#include "cli/runs/child_process.h"
#include "cli/runs/run_log.h"

namespace plimsoll::cli {
namespace {

// Prints what was recorded. Returns kFine, or the exit code for why nothing was recorded.
int report_linked_run(const RunLog& log, const std::string& program) {
  for (const std::string& why : log.failures) complain("nothing was recorded: " + why);
  if (log.recordings.empty() && !log.failures.empty()) return kInternalError;
  if (log.processes == 0) {
    complain(program +
             " is not linked with plimsoll: nothing was recorded; link plimsoll::libtorch or "
             "plimsoll::record (docs/cpp.md), or record any CUDA program with plimsoll run "
             "--cuda-driver -- " +
             program);
    return kUsageError;
  }
  const Printed printed = print_recordings(log.recordings);
  if (printed.events > 0 || printed.is_incomplete) return kFine;
  complain(
      program +
      " made no allocation that plimsoll can see; compile the LibTorch adapter into it "
      "(plimsoll::libtorch), or report allocations through plimsoll/recorder_c.h (docs/cpp.md)");
  return kUsageError;
}

}  // namespace

int run_linked_program(const std::string& path, const std::vector<std::string>& program) {
  RunLog log;
  if (!log.is_made()) {
    complain("cannot create " + log.path() + ": " + std::strerror(errno) +
             "; TMPDIR can name another folder");
    return kUsageError;
  }
  ::setenv("PLIMSOLL", "1", 1);
  ::setenv("PLIMSOLL_OUT", path.c_str(), 1);
  ::setenv("PLIMSOLL_RUN_LOG", log.path().c_str(), 1);
  const auto status = run_and_forward_signals(program);
  if (!status) return complain(status.error());
  log.read();
  const int ours = report_linked_run(log, program.front());
  return *status != 0 ? *status : ours;
}

}  // namespace plimsoll::cli
