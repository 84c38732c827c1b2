// plimsoll dump: prints the records of a trace file, one per line.

#include <cstdio>
#include <string>

#include "cli/commands.h"
#include "cli/line/common_options.h"
#include "cli/line/exit_code.h"
#include "cli/line/interruption.h"
#include "cli/line/terminal.h"
#include "engine/dump.h"

namespace plimsoll::cli {
namespace {

int run_dump(const Arguments& arguments) {
  Status written;
  const Status status = engine::dump(arguments.value("FILE"), [&](std::string_view lines) {
    if (is_interrupted()) written = make_error(ErrorCode::kInterrupted, "interrupted");
    if (written) written = print(lines);
    return written.ok() && std::ferror(stdout) == 0;  // false if the reader closed the pipe
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
      "Prints a recording of Plimsoll, one line per record, as it is in the file. docs/format.md "
      "describes the records.";
  command.positionals = {recording_positional("Recording, also compressed with gzip.")};
  command.sections = {{"examples",
                       {{"plimsoll dump run.plim | head -50", "the first records"},
                        {"plimsoll dump run.plim | grep ^mark", "steps and regions"},
                        {"plimsoll dump run.plim | grep ^block", "the layout of the file"}}}};
  command.run = run_dump;
  return command;
}

}  // namespace plimsoll::cli
