#include "cli/line/other_tools.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/suggestion.h"
#include "cli/commands.h"

namespace plimsoll::cli {
namespace {

using OtherName = std::pair<std::string_view, std::string_view>;

constexpr std::string_view kReportExplains = "; plimsoll report FILE explains a recording";
constexpr std::string_view kRunRecords = "; plimsoll run SCRIPT records a program";

constexpr std::array kCommandsOfOthers = {
    OtherName{
        "compare",
        "; plimsoll diff BEFORE AFTER compares two recordings, and plimsoll analyze A B compares "
        "text logs"},
    OtherName{"record", kRunRecords},
    OtherName{"profile", kRunRecords},
    OtherName{"show", kReportExplains},
    OtherName{"view", kReportExplains},
    OtherName{"stats", kReportExplains},
    OtherName{"summary", kReportExplains},
    OtherName{"tree", kReportExplains},
    OtherName{"table", kReportExplains},
    OtherName{"live", "; plimsoll top shows running programs that plimsoll records"},
    OtherName{
        "attach",
        "; a running program cannot be attached to: start it with plimsoll run, and plimsoll top "
        "shows its memory"},
    OtherName{"flamegraph", "; plimsoll export FILE --to speedscope writes a flame graph"},
};

// An option of another tool, and ours. It is suggested where the command has ours.
constexpr std::array kOptionsOfOthers = {
    OtherName{"--group-by", "--by"},    OtherName{"--loop", "--interval"},
    OtherName{"-l", "--interval"},      OtherName{"-d", "--interval"},
    OtherName{"--delay", "--interval"}, OtherName{"-n", "--interval"},
};

constexpr std::string_view kTraceViewer =
    "; no format is for a trace viewer such as Perfetto: speedscope and html show memory over time";

std::string_view entry_for(const auto& names, std::string_view word) {
  const auto* const found = std::ranges::find(names, word, &OtherName::first);
  return found == names.end() ? std::string_view() : found->second;
}

}  // namespace

std::string no_such_command(const std::string& word) {
  std::vector<std::string> known = {"--version", "--help"};
  for (const Command& command : commands()) known.push_back(command.name);
  const std::string_view instead = entry_for(kCommandsOfOthers, word);
  return (word.starts_with("-") ? "there is no option " : "there is no command ") + word +
         (instead.empty() ? base::did_you_mean(word, known) : std::string(instead)) +
         " (plimsoll --help)";
}

std::string option_instead_of(const Command& command, const std::string& name) {
  const std::string ours(entry_for(kOptionsOfOthers, name));
  const auto option = std::ranges::find(command.options, ours, &Option::name);
  return option == command.options.end() ? std::string() : "; did you mean " + ours + "?";
}

std::string value_instead_of(const std::string& option, const std::string& value) {
  const bool is_viewer = value == "chrome" || value == "perfetto" || value == "chrome-trace";
  return std::string(option == "--to" && is_viewer ? kTraceViewer : std::string_view());
}

}  // namespace plimsoll::cli
