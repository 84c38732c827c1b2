#include "cli/other_tools.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/suggestion.h"
#include "cli/commands.h"

namespace plimsoll::cli {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

constexpr std::string_view kReport = "; plimsoll report FILE explains a recording";
constexpr std::string_view kRun = "; plimsoll run SCRIPT records a program";

constexpr std::array kCommands = {
    Names{"compare",
          "; plimsoll diff BEFORE AFTER compares two recordings, and plimsoll analyze A B compares "
          "text logs"},
    Names{"record", kRun},
    Names{"profile", kRun},
    Names{"show", kReport},
    Names{"view", kReport},
    Names{"stats", kReport},
    Names{"summary", kReport},
    Names{"tree", kReport},
    Names{"table", kReport},
    Names{"live", "; plimsoll top shows running programs that plimsoll records"},
    Names{"attach",
          "; a running program cannot be attached to: start it with plimsoll run, and plimsoll top "
          "shows its memory"},
    Names{"flamegraph", "; plimsoll export FILE --to speedscope writes a flame graph"},
};

// An option of another tool, and ours. It is suggested where the command has ours.
constexpr std::array kOptions = {
    Names{"--group-by", "--by"}, Names{"--loop", "--interval"},  Names{"-l", "--interval"},
    Names{"-d", "--interval"},   Names{"--delay", "--interval"}, Names{"-n", "--interval"},
};

constexpr std::string_view kTraceViewer =
    "; no format is for a trace viewer such as Perfetto: speedscope and html show memory over time";

std::string_view found_in(const auto& names, std::string_view word) {
  const auto* const found = std::ranges::find(names, word, &Names::first);
  return found == names.end() ? std::string_view() : found->second;
}

}  // namespace

std::string no_such_command(const std::string& word) {
  std::vector<std::string> known = {"--version", "--help"};
  for (const Command& command : commands()) known.push_back(command.name);
  const std::string_view instead = found_in(kCommands, word);
  return (word.starts_with("-") ? "there is no option " : "there is no command ") + word +
         (instead.empty() ? base::did_you_mean(word, known) : std::string(instead)) +
         " (plimsoll --help)";
}

std::string option_instead_of(const Command& command, const std::string& name) {
  const std::string ours(found_in(kOptions, name));
  const auto option = std::ranges::find(command.options, ours, &Option::name);
  return option == command.options.end() ? std::string() : "; did you mean " + ours + "?";
}

std::string value_instead_of(const std::string& option, const std::string& value) {
  const bool is_viewer = value == "chrome" || value == "perfetto" || value == "chrome-trace";
  return std::string(option == "--to" && is_viewer ? kTraceViewer : std::string_view());
}

}  // namespace plimsoll::cli
