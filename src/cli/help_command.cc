// plimsoll help: prints the help of a command, docs/cli.md or the manual page.

#include <string>

#include "cli/commands.h"
#include "cli/line/exit_code.h"
#include "cli/line/help.h"
#include "cli/line/man_page.h"
#include "cli/line/other_tools.h"
#include "cli/line/terminal.h"

namespace plimsoll::cli {
namespace {

Result<std::string> text_for(const Arguments& arguments) {
  if (arguments.has("--markdown")) return markdown();
  if (arguments.has("--man")) return man_page();
  const std::string name = arguments.value("COMMAND");
  if (name.empty()) return overview();
  const Command* command = find_command(name);
  if (command != nullptr) return help_of(*command);
  return make_error(ErrorCode::kInvalidArgument, no_such_command(name));
}

int run_help(const Arguments& arguments) {
  const auto text = text_for(arguments);
  const Status status = text ? print(*text) : Status(text.error());
  return status ? kFine : complain(status.error());
}

}  // namespace

Command help_command() {
  Command command;
  command.name = "help";
  command.summary = "Print the options of a command";
  command.description = "Prints the help of a command, or of all commands.";
  command.positionals = {{"COMMAND", "Command to describe.", Count::kAtMostOne}};
  command.options = {
      {"--markdown", "", "", "Print the help of all commands as Markdown (docs/cli.md)."},
      {"--man", "", "", "Print the help of all commands as the manual page plimsoll(1), in roff."}};
  command.run = run_help;
  return command;
}

}  // namespace plimsoll::cli
