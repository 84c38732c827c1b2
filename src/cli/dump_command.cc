// plimsoll dump: the records of a trace file, one a line.

#include <cstdio>
#include <string>

#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/exit_code.h"
#include "cli/interruption.h"
#include "cli/terminal.h"
#include "engine/dump.h"

namespace plimsoll::cli {
namespace {

int run_dump(const Arguments& arguments) {
  Status written;
  const Status status = engine::dump(arguments.value("FILE"), [&](std::string_view lines) {
    if (is_interrupted()) written = make_error(ErrorCode::kInterrupted, "interrupted");
    if (written) written = print(lines);
    return written.ok() && std::ferror(stdout) == 0;  // the reader of a pipe may have gone
  });
  if (!written) return complain(written.error());
  if (!status) return complain(status.error());
  return kFine;
}

}  // namespace

Command dump_command() {
  Command command;
  command.name = "dump";
  command.summary = "Print the records of a Plimsoll recording as text";
  command.description =
      "Prints what stands in a trace file of plimsoll run or plimsoll.record(), one line a record, "
      "as it stands there: numbers of names are not resolved, nothing is left out, damage is told "
      "at the end. docs/format.md says what the records mean.";
  command.positionals = {recording_positional("The recording; gzip is taken off.")};
  command.sections = {{"examples",
                       {{"plimsoll dump run.plim | head -50", "how it begins"},
                        {"plimsoll dump run.plim | grep ^mark", "its steps and regions"},
                        {"plimsoll dump run.plim | grep ^block", "how it is laid out"}}}};
  command.run = run_dump;
  return command;
}

}  // namespace plimsoll::cli
