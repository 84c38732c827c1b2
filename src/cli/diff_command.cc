// plimsoll diff: what differs between two recordings, and why.

#include <cstdint>
#include <string>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/line/common_options.h"
#include "cli/line/exit_code.h"
#include "cli/line/progress_bar.h"
#include "cli/line/terminal.h"
#include "comparison/diff.h"
#include "plimsoll/diff.h"

namespace plimsoll::cli {
namespace {

constexpr std::size_t kWidestDiff = 200;
constexpr std::size_t kCausesShown = 10;

Result<std::int64_t> parsed_growth(const std::string& text) {
  if (const auto bytes = base::parse_bytes(text)) return *bytes;
  return make_error(ErrorCode::kInvalidArgument,
                    "--fail-on-growth " + text + " " + base::size_error(text));
}

Result<int> compare_files(const Arguments& arguments) {
  DiffQuestion question;
  question.at = arguments.value("--at");
  PLIMSOLL_TRY_ASSIGN(question.top, chosen_top(arguments, kCausesShown));
  std::int64_t most_growth = INT64_MAX;
  if (arguments.has("--fail-on-growth")) {
    PLIMSOLL_TRY_ASSIGN(most_growth, parsed_growth(arguments.value("--fail-on-growth")));
  }
  const std::string before = arguments.value("BEFORE");
  const std::string after = arguments.value("AFTER");
  ProgressBar bar(after);
  const ProgressCallback progress = [&](std::string_view stage, std::uint64_t done,
                                        std::uint64_t total) {
    return bar.advance(stage, done, total);
  };
  PLIMSOLL_TRY_ASSIGN(const Difference difference, diff(before, after, question, progress));
  bar.clear();
  const bool has_color = chosen_color(arguments) == text::Color::kOn;
  PLIMSOLL_TRY(print(arguments.has("--json")
                         ? difference.json()
                         : difference.text(output_width(kWidestDiff), has_color)));
  if (arguments.has("--fail-on-growth") && difference.is_incomplete()) {
    return make_error(ErrorCode::kCorrupt,
                      (difference.value().before.incomplete ? before : after) +
                          ": the recording is incomplete, so its growth is unknown");
  }
  return difference.growth_bytes() > most_growth ? kFindingToFailOn : kFine;
}

int run_diff(const Arguments& arguments) {
  const auto exit_code = compare_files(arguments);
  return exit_code ? *exit_code : complain(exit_code.error());
}

}  // namespace

Command diff_command() {
  Command command;
  command.name = "diff";
  command.summary = "Compare two recordings, and name what changed";
  command.description =
      "Compares two recordings of the same program, before and after a change. Memory is compared "
      "by layer, operator, function and category, so moved lines and renamed layers do not count "
      "as differences. Each side may be a recording, a snapshot, or a digest of plimsoll export "
      "--to digest.";
  command.positionals = {
      {"BEFORE", "Recording or digest before the change.", Count::kOne, Takes::kAnything},
      {"AFTER", "Recording or digest after the change.", Count::kOne, Takes::kAnything}};
  command.options = {
      {"--json", "", "", "Print JSON (plimsoll schema diff)."},
      {"--at",
       "",
       "POINT",
       "Compare only this point.",
       {"peak", "forward", "backward", "optimizer", "data", "step end", "oom", "end"}},
      {"--top", "", "N", "Causes listed for a point (default 10)."},
      {"--fail-on-growth", "", "BYTES",
       "Exit with status 1 if memory grew by more than this at a compared point: 0, 64KiB, 1MiB."},
      color_option(),
  };
  command.sections = {
      {"examples",
       {{"plimsoll diff before.plim after.plim", "what grew, and why"},
        {"plimsoll diff base.json run.plim --fail-on-growth 0", "fail in CI if memory grew"}}}};
  command.run = run_diff;
  return command;
}

}  // namespace plimsoll::cli
