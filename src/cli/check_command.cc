// plimsoll check: compares what programs use with their budgets.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/json_writer.h"
#include "base/suggestion.h"
#include "base/timestamps.h"
#include "budgets/budget_file.h"
#include "budgets/check.h"
#include "budgets/check_text.h"
#include "budgets/ci_formats.h"
#include "cli/commands.h"
#include "cli/line/common_options.h"
#include "cli/line/exit_code.h"
#include "cli/line/interruption.h"
#include "cli/line/terminal.h"
#include "cli/runs/budget_files.h"
#include "cli/runs/budget_runs.h"
#include "cli/runs/child_process.h"
#include "cli/runs/output_file.h"
#include "cli/runs/python_package.h"
#include "engine/digest_input.h"

namespace plimsoll::cli {
namespace {

using budgets::Budget;
using budgets::BudgetFile;
using budgets::Check;
using budgets::CheckedBudget;
using budgets::CheckedLimit;

constexpr std::size_t kWidestCheck = 200;
constexpr std::uint64_t kMostRepeats = 1000;

Result<std::uint64_t> chosen_repeats(const Arguments& arguments) {
  const std::string text = arguments.value("--repeat", "1");
  std::uint64_t repeats = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), repeats);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (is_number && repeats >= 1 && repeats <= kMostRepeats) return repeats;
  return make_error(ErrorCode::kInvalidArgument,
                    "--repeat " + text + " is not a number of runs from 1 to 1000");
}

Status select_budgets(const Arguments& arguments, BudgetFile& file) {
  if (!arguments.has("--only")) return {};
  std::vector<std::string> known;
  for (const Budget& budget : file.budgets) known.push_back(budget.name);
  const std::vector<std::string> wanted = arguments.values("--only");
  for (const std::string& name : wanted) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string close = base::did_you_mean(name, known);
    return make_error(ErrorCode::kInvalidArgument,
                      file.path + " has no budget " + name +
                          (close.empty() ? "; it has " + base::joined(known) : close));
  }
  std::erase_if(file.budgets, [&](const Budget& budget) {
    return std::ranges::find(wanted, budget.name) == wanted.end();
  });
  return {};
}

// "budgets/net.json", or "budgets/net.rank3.json" if there are several ranks.
std::string baseline_path(const BudgetFile& file, const Budget& budget, const budgets::Runs& runs,
                          bool is_one_of_several) {
  std::string path = in_folder(folder_of(file.path), budget.baseline);
  if (!is_one_of_several) return path;
  const std::string rank = ".rank" + std::to_string(runs.digest.source.rank.value_or(0));
  const std::size_t end = path.ends_with(".json") ? path.size() - 5 : path.size();
  return path.insert(end, rank);
}

// Writes the baseline and records how it differs from the previous one. Leaves an equal file alone.
Status update_baseline(const std::string& path, report::Digest digest, CheckedBudget& checked) {
  // No budget compares it with a baseline, and it may differ between equal runs: which steps are
  // observed depends on their duration.
  for (report::DigestPoint& point : digest.points) point.unused.reset();
  const std::string text =
      base::json_text([&](base::JsonWriter& json) { base::write_json(json, digest); });
  std::error_code error;
  std::vector<std::string> facts = {path + " is new"};
  const auto before = engine::read_digest(path);
  if (!before) {
    facts = {path + " replaces a damaged digest"};
  } else if (*before) {
    const std::string old =
        base::json_text([&](base::JsonWriter& json) { base::write_json(json, **before); });
    if (old == text) {
      complain(path + " is unchanged");
      return {};
    }
    facts = budgets::describe_update(**before, digest);
    facts.insert(facts.begin(),
                 path + (facts.empty() ? ": nothing that a check compares differs" : ""));
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  PLIMSOLL_TRY_ASSIGN(OutputFile output, OutputFile::create(path, Existing::kReplace, "baseline:"));
  output.write(text);
  PLIMSOLL_TRY(output.finish());
  checked.accepted.insert(checked.accepted.end(), facts.begin(), facts.end());
  return {};
}

void name_rank(const budgets::Runs& runs, std::vector<CheckedLimit>& limits) {
  const std::string rank = std::to_string(runs.digest.source.rank.value_or(0));
  for (CheckedLimit& limit : limits) {
    limit.name += " of rank " + rank;
    for (budgets::CheckFinding& finding : limit.findings) {
      finding.title = "rank " + rank + ": " + finding.title;
      finding.site = "rank " + rank + "/" + finding.site;
    }
  }
}

// Adds the recordings to a fleet, as a run of the workload that the budget names. Of repeated runs,
// the last one stays.
Status add_to_fleet(const std::string& fleet, const std::string& folder, const std::string& budget,
                    const std::string& started, const std::vector<std::string>& paths) {
  std::vector<std::string> words = package_file("_command/fleet.py");
  words.insert(words.end(), {"add", "--replace", "--temporary", "--tag=workload=" + budget});
  std::string run = started + "-" + budget;
  const auto head = read_program({"git", "-C", folder, "rev-parse", "HEAD"});
  if (head && head->status == 0 && head->out.size() > 12) {
    const std::string commit = head->out.substr(0, head->out.find('\n'));
    words.push_back("--commit=" + commit);
    run += "-" + commit.substr(0, 12);
  }
  words.insert(words.end(), {"--run=" + run, "--", fleet});
  words.insert(words.end(), paths.begin(), paths.end());
  PLIMSOLL_TRY_ASSIGN(const int status, run_with_output_on_stderr(words, "."));
  if (status == 0) return {};
  return make_error(ErrorCode::kIo, "the recording of " + budget + " was not added to " + fleet);
}

Status check_one(const BudgetFile& file, const Budget& budget, std::uint64_t repeats,
                 bool is_update, const KeepRecordings& keep, CheckedBudget& checked) {
  const BaselineUse use = is_update ? BaselineUse::kWrite : BaselineUse::kRead;
  if (!budget.run.empty() && !budget.baseline.empty()) {
    // Before the run, which may take long.
    const std::string path = in_folder(folder_of(file.path), budget.baseline);
    PLIMSOLL_TRY(check_baseline(file, budget, path, use));
  }
  PLIMSOLL_TRY_ASSIGN(const auto ranks, measure(file, budget, repeats, keep));
  const bool are_several = ranks.size() > 1;
  for (const budgets::Runs& runs : ranks) {
    std::optional<report::Digest> baseline;
    if (!budget.baseline.empty()) {
      const std::string path = baseline_path(file, budget, runs, are_several);
      PLIMSOLL_TRY(check_baseline(file, budget, path, use));
      if (is_update) PLIMSOLL_TRY(update_baseline(path, runs.digest, checked));
      PLIMSOLL_TRY_ASSIGN(baseline, read_baseline(file, budget, path));
    }
    PLIMSOLL_TRY_ASSIGN(auto limits,
                        budgets::check_limits(file, budget, runs, baseline ? &*baseline : nullptr));
    if (are_several) name_rank(runs, limits);
    std::ranges::move(limits, std::back_inserter(checked.limits));
  }
  return {};
}

std::string document(const Check& check, const std::string& format, const Arguments& arguments) {
  if (format == "json") {
    return base::json_text([&](base::JsonWriter& json) { base::write_json(json, check); });
  }
  if (format == "markdown") return budgets::to_markdown(check);
  if (format == "junit") return budgets::to_junit(check);
  if (format == "github") return budgets::to_github(check);
  return budgets::to_text(check, output_width(kWidestCheck), chosen_color(arguments));
}

// With --output, writes the chosen format to the file and prints the text form to stdout.
Status write_check(const Check& check, const Arguments& arguments) {
  const std::string format = arguments.value("--format", "text");
  if (!arguments.has("--output")) return print(document(check, format, arguments));
  const std::string path = arguments.value("--output");
  PLIMSOLL_TRY_ASSIGN(OutputFile output, OutputFile::create(path, Existing::kReplace, "--output"));
  output.write(document(check, format, arguments));
  PLIMSOLL_TRY(output.finish());
  return path == "-" ? Status() : print(document(check, "text", arguments));
}

Result<int> check_budgets(const Arguments& arguments) {
  PLIMSOLL_TRY_ASSIGN(const std::uint64_t repeats, chosen_repeats(arguments));
  PLIMSOLL_TRY_ASSIGN(BudgetFile file,
                      budgets::read_budgets(arguments.value("FILE", budgets::kUsualBudgetFile)));
  PLIMSOLL_TRY(check_baselines_differ(file));
  if (arguments.has("--output")) {
    PLIMSOLL_TRY(check_not_named(arguments.value("--output"), file));
  }
  PLIMSOLL_TRY(select_budgets(arguments, file));
  Check check;
  check.path = file.path;
  int exit_code = kFine;
  const std::string started = base::local_stamp(base::now_ns());
  for (const Budget& budget : file.budgets) {
    CheckedBudget& checked = check.budgets.emplace_back();
    checked.name = budget.name;
    checked.line = static_cast<std::uint64_t>(budget.line);
    checked.measured = budget.run.empty() ? budget.recording : budget.run;
    const KeepRecordings keep = [&](const std::vector<std::string>& paths) {
      if (!arguments.has("--fleet")) return Status();
      return add_to_fleet(arguments.value("--fleet"), folder_of(file.path), budget.name, started,
                          paths);
    };
    const Status status =
        check_one(file, budget, repeats, arguments.has("--update"), keep, checked);
    if (status) continue;
    if (status.error().code == ErrorCode::kInterrupted) return status.error();
    checked.error = status.error().message;
    const int code = complain(status.error());
    if (exit_code == kFine) exit_code = code;
  }
  PLIMSOLL_TRY(write_check(check, arguments));
  if (exit_code != kFine) return exit_code;
  return check.count(budgets::Verdict::kExceeded) > 0 ? kFindingToFailOn : kFine;
}

int run_check(const Arguments& arguments) {
  watch_for_termination();  // so that the temporary folder of a run is removed
  const auto exit_code = check_budgets(arguments);
  return exit_code ? *exit_code : complain(exit_code.error());
}

}  // namespace

Command check_command() {
  Command command;
  command.name = "check";
  command.summary = "Check that programs stay within their memory budgets";
  command.description =
      "Records the programs that a budget file names, or reads their recordings, and compares them "
      "with their limits and baselines. The first line names what exceeds a budget, and its cause.";
  command.positionals = {{"FILE",
                          "The budget file (default plimsoll.budgets.yaml). Its paths are relative "
                          "to its folder.",
                          Count::kAtMostOne}};
  command.options = {
      {"--update", "", "",
       "Write the baselines, and print what changes in them. Limits are never changed."},
      {"--only", "", "NAME", "Check only this budget; several as a,b.", {}, true},
      {"--repeat", "", "N",
       "Run each command N times, 5 or more where equal runs differ, as on a GPU."},
      {"--fleet", "", "DIR",
       "Add the recordings to this fleet, for plimsoll fleet show --history."},
      {"--format",
       "",
       "FORMAT",
       "text; json (plimsoll schema check); markdown, a comment for a pull request; junit; github, "
       "annotations of GitHub Actions.",
       {"text", "json", "markdown", "junit", "github"}},
      {"--output", "-o", "PATH",
       "Write the chosen format to this file, and the text to standard output."},
      color_option(),
  };
  command.sections = {
      {"examples",
       {{"plimsoll check", "run what plimsoll.budgets.yaml names, and compare"},
        {"plimsoll check --update", "accept what the programs use now as baselines"},
        {"plimsoll check --format markdown -o comment.md", "in CI, for a pull request"}}}};
  command.run = run_check;
  return command;
}

}  // namespace plimsoll::cli
