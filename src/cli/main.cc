// The command `plimsoll`: finds the subcommand, parses its arguments, runs it. exit_code.h defines
// the exit codes.

#include <algorithm>
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/line/command_line.h"
#include "cli/line/exit_code.h"
#include "cli/line/help.h"
#include "cli/line/interruption.h"
#include "cli/line/other_tools.h"
#include "cli/line/terminal.h"
#include "cli/runs/latest_recording.h"
#include "plimsoll/version.h"

namespace plimsoll::cli {
namespace {

int say(const Status& status) { return status ? kFine : complain(status.error()); }

int unknown_command(const std::string& word) {
  complain(no_such_command(word));
  return kUsageError;
}

bool asks_for_help(const std::vector<std::string>& words) {
  const auto end = std::ranges::find(words, "--");
  return std::any_of(words.begin(), end,
                     [](const std::string& word) { return word == "--help" || word == "-h"; });
}

int run(std::vector<std::string> words) {
  if (words.empty()) {
    complain("no command given; for example: plimsoll report snapshot.pickle (plimsoll --help)");
    return kUsageError;
  }
  const std::string first = words.front();
  if (first == "--version") return say(print("plimsoll " PLIMSOLL_VERSION "\n"));
  if (first == "--help" || first == "-h") return say(print(overview()));
  const Command* command = find_command(first);
  if (command == nullptr) return unknown_command(first);
  words.erase(words.begin());
  if (command->run_words != nullptr && !words.empty() && words[0] != "--help" && words[0] != "-h") {
    return command->run_words(words);
  }
  if (asks_for_help(words)) return say(print(help_of(*command)));
  auto arguments = parse(*command, words);
  if (!arguments) {
    complain(arguments.error().message);
    return kUsageError;
  }
  if (const Status status = name_latest(*command, *arguments); !status) {
    return complain(status.error());
  }
  return command->run(*arguments);
}

}  // namespace
}  // namespace plimsoll::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // writing to a closed pipe fails instead
  plimsoll::cli::watch_for_interruption();
  try {
    return plimsoll::cli::run(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  } catch (const std::bad_alloc&) {
    plimsoll::cli::complain("not enough memory on this machine");
  } catch (const std::exception& error) {
    plimsoll::cli::complain(std::string("this is a bug in plimsoll, please report it: ") +
                            error.what());
  }
  return plimsoll::cli::kInternalError;
}
