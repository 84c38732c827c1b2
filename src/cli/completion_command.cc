// plimsoll completion: prints a shell completion script.

#include <string>

#include "cli/commands.h"
#include "cli/line/completion.h"
#include "cli/line/exit_code.h"
#include "cli/line/terminal.h"

namespace plimsoll::cli {
namespace {

int run_completion(const Arguments& arguments) {
  const std::string shell = arguments.value("SHELL");
  const Status status = print(shell == "bash"  ? bash_completion()
                              : shell == "zsh" ? zsh_completion()
                                               : fish_completion());
  return status ? kFine : complain(status.error());
}

}  // namespace

Command completion_command() {
  Command command;
  command.name = "completion";
  command.summary = "Print a completion script for bash, zsh or fish";
  command.description =
      "Prints a script that completes commands, options and their values. pip install and cmake "
      "--install put it where shells below the same prefix find it; elsewhere, such as in a "
      "virtual environment, the start file of the shell loads it.";
  command.positionals = {
      {"SHELL", "The shell.", Count::kOne, Takes::kAnything, {"bash", "zsh", "fish"}}};
  command.sections = {{"examples",
                       {{"eval \"$(plimsoll completion bash)\"", "in ~/.bashrc"},
                        {"eval \"$(plimsoll completion zsh)\"", "in ~/.zshrc, after compinit"},
                        {"plimsoll completion fish | source", "in ~/.config/fish/config.fish"}}}};
  command.run = run_completion;
  return command;
}

}  // namespace plimsoll::cli
