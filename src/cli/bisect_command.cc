// plimsoll bisect: finds the commit that made a program use more memory.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/suggestion.h"
#include "base/units.h"
#include "budgets/budget_file.h"
#include "cli/commands.h"
#include "cli/line/common_options.h"
#include "cli/line/exit_code.h"
#include "cli/line/interruption.h"
#include "cli/line/terminal.h"
#include "cli/runs/child_process.h"
#include "cli/runs/git_worktree.h"
#include "cli/runs/recorded_run.h"
#include "cli/runs/scratch_folder.h"
#include "comparison/diff.h"
#include "comparison/tracked_cause.h"
#include "engine/digest_input.h"
#include "exporters/terminal/report.h"
#include "text/layout.h"
#include "text/table.h"

namespace plimsoll::cli {
namespace {

using comparison::TrackedCause;

constexpr std::size_t kWidestBisection = 100;
constexpr std::size_t kBisectCausesShown = 5;
constexpr std::size_t kShortHash = 10;
constexpr std::size_t kHash = 40;

// What to run at each commit.
struct BisectedProgram {
  std::vector<std::string> words;
  std::string recording;  // the file that the program writes; empty: `words` are for plimsoll run
};

struct JudgedCommit {
  std::string commit;
  std::string verdict;  // good, bad or skip, as git bisect names them
  std::optional<report::Digest> digest = {};
  std::string why_skipped = {};
  std::int64_t growth = 0;  // of what the cause explains
};

std::string short_hash(const std::string& commit) { return commit.substr(0, kShortHash); }

std::string growth_text(std::int64_t bytes) {
  return (bytes > 0 ? "+" : "") + base::bytes_text(bytes);
}

Result<std::string> subject_of(const GitWorktree& tree, const std::string& commit) {
  return tree.git({"show", "--no-patch", "--format=%s", commit});
}

std::string recording_path(const GitWorktree& tree, const BisectedProgram& program) {
  return (std::filesystem::path(tree.folder()) / program.recording).string();
}

// The recording is removed before each run, so it must be in the working tree. A commit may contain
// symbolic links, so this is checked at each commit.
Status check_recording(const GitWorktree& tree, const BisectedProgram& program) {
  if (program.recording.empty() || tree.contains(recording_path(tree, program))) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "--recording " + program.recording +
                        " leads outside the temporary working tree; give a path in the repository, "
                        "relative to the current folder");
}

// Runs the program at the commit that is checked out. A run that fails has no digest.
Result<JudgedCommit> run_commit(const GitWorktree& tree, const BisectedProgram& program,
                                const std::string& commit) {
  JudgedCommit out{.commit = commit, .verdict = "skip"};
  std::error_code error;
  if (!std::filesystem::is_directory(tree.folder(), error)) {
    out.why_skipped = "the folder does not exist there";
    return out;
  }
  if (!tree.contains(tree.folder())) {
    out.why_skipped = "the folder is a link that leads outside the working tree there";
    return out;
  }
  if (const Status status = check_recording(tree, program); !status) {
    out.why_skipped = status.error().message;
    return out;
  }
  PLIMSOLL_TRY_ASSIGN(const std::string subject, subject_of(tree, commit));
  complain("recording " + short_hash(commit) + " " + subject);
  PLIMSOLL_TRY_ASSIGN(const ScratchFolder scratch, ScratchFolder::make());
  const bool records_itself = !program.recording.empty();
  const std::string file =
      records_itself ? recording_path(tree, program) : scratch.path() + "/run.plim";
  std::filesystem::remove(file, error);
  PLIMSOLL_TRY_ASSIGN(const int status,
                      records_itself ? run_with_output_on_stderr(program.words, tree.folder())
                                     : record_run(program.words, tree.folder(), file));
  if (is_interrupted()) return make_error(ErrorCode::kInterrupted, "interrupted");
  if (status != 0) {
    out.why_skipped = "the run failed with exit status " + std::to_string(status);
  } else if (!std::filesystem::exists(file, error)) {
    out.why_skipped = "the run recorded nothing";
  } else if (auto digest = engine::digest_of(file); !digest) {
    out.why_skipped = digest.error().message;
  } else if (digest->source.incomplete) {
    out.why_skipped = "the recording is incomplete: " + *digest->source.incomplete;
  } else {
    shorten_places(tree.folder(), *digest);
    shorten_places(tree.path(), *digest);
    out.digest = std::move(*digest);
  }
  return out;
}

// The commit that a bisection starts from; here, a run that fails is an error.
Result<JudgedCommit> run_end(const GitWorktree& tree, const BisectedProgram& program,
                             const std::string& commit, const std::string& verdict) {
  PLIMSOLL_TRY(tree.check_out(commit));
  PLIMSOLL_TRY_ASSIGN(JudgedCommit out, run_commit(tree, program, commit));
  if (!out.digest) {
    return make_error(ErrorCode::kIo, "the " + verdict + " commit " + short_hash(commit) +
                                          " cannot be measured: " + out.why_skipped);
  }
  out.verdict = verdict;
  return out;
}

// What git bisect prints when it is done: one commit, or several because others were skipped.
std::vector<std::string> found_in(std::string_view said) {
  std::vector<std::string> commits;
  const bool is_one = said.find(" is the first bad commit") != said.npos;
  const bool are_several = said.find("The first bad commit could be any of:") != said.npos;
  while (!said.empty() && (is_one || are_several)) {
    const std::string_view line = said.substr(0, said.find('\n'));
    said.remove_prefix(std::min(line.size() + 1, said.size()));
    const std::string_view hash = line.substr(0, kHash);
    if (hash.size() < kHash || hash.find_first_not_of("0123456789abcdef") != hash.npos) continue;
    if (is_one && line.substr(kHash) != " is the first bad commit") continue;
    commits.emplace_back(hash);
  }
  return commits;
}

class Bisection {
 public:
  Bisection(const GitWorktree& tree, const BisectedProgram& program, JudgedCommit good,
            JudgedCommit bad, TrackedCause cause)
      : tree_(tree), program_(program), cause_(std::move(cause)) {
    bad.growth = cause_.growth_in_bad();
    commits_.push_back(std::move(good));
    commits_.push_back(std::move(bad));
    complain("following " + followed_text());
    for (const JudgedCommit& each : commits_) say_verdict(each);
  }

  Status run() {
    const std::string good = commits_[0].commit;
    const std::string bad = commits_[1].commit;
    PLIMSOLL_TRY_ASSIGN(std::string said, tree_.git({"bisect", "start", bad, good}));
    while ((found_ = found_in(said)).empty()) {
      PLIMSOLL_TRY_ASSIGN(const std::string commit, tree_.git({"rev-parse", "HEAD"}));
      PLIMSOLL_TRY_ASSIGN(JudgedCommit next, run_commit(tree_, program_, commit));
      judge(next);
      say_verdict(next);
      PLIMSOLL_TRY(tree_.clean());
      const std::string verdict = next.verdict;
      commits_.push_back(std::move(next));
      auto answer = tree_.git({"bisect", verdict});
      if (answer) {
        said = *std::move(answer);
        continue;
      }
      // With only skipped commits left, git bisect fails; its log lists them.
      PLIMSOLL_TRY_ASSIGN(said, tree_.git({"bisect", "log"}));
      found_ = possible_in(said);
      return found_.empty() ? Status(answer.error()) : Status();
    }
    return {};
  }

  Result<std::string> text(std::size_t width, text::Color color) const {
    PLIMSOLL_TRY_ASSIGN(const Finding finding, verdict());
    exporters::terminal::TextOptions options;
    options.width = std::min(width, kWidestBisection);
    options.color = color;
    PLIMSOLL_TRY_ASSIGN(const std::string table, commits_table(options));
    return exporters::terminal::findings_text({finding}, options) + "\n" +
           text::wrap("From good to bad: " + text::printable(followed_text()), 2, options.width) +
           "\n\n" + table;
  }

 private:
  // "# possible first bad commit: [hash] subject"
  static std::vector<std::string> possible_in(std::string_view log) {
    constexpr std::string_view kPossible = "# possible first bad commit: [";
    std::vector<std::string> commits;
    for (std::size_t at = 0; (at = log.find(kPossible, at)) != log.npos;) {
      at += kPossible.size();
      commits.emplace_back(log.substr(at, kHash));
    }
    return commits;
  }

  void judge(JudgedCommit& commit) const {
    if (!commit.digest) return;
    const auto growth = cause_.growth_in(*commit.digest);
    if (!growth) {
      commit.why_skipped = "it has no point " + point_name();
      return;
    }
    commit.growth = *growth;
    commit.verdict = cause_.is_nearer_to_bad(*growth) ? "bad" : "good";
  }

  std::string point_name() const { return cause_.point().name + " on " + cause_.point().device; }

  // "+9.0 MiB of the peak on cpu: size of Net.body: [512, 256] → [2048, 256]"
  std::string followed_text() const {
    return growth_text(cause_.growth_in_bad()) + " of the " + point_name() + ": " +
           comparison::cause_text(cause_.cause());
  }

  void say_verdict(const JudgedCommit& commit) const {
    complain(short_hash(commit.commit) +
             (commit.verdict == "skip"
                  ? " is skipped: " + commit.why_skipped
                  : " is " + commit.verdict + ": " + growth_text(commit.growth) + " of it, " +
                        point_name() + " " + base::bytes_text(point_bytes(*commit.digest))));
  }

  // The last good commit before it that was measured; git bisect has tested its parent if it could.
  Result<const JudgedCommit*> good_before(const std::string& commit) const {
    const auto parent = tree_.git({"rev-parse", commit + "^"});
    for (const JudgedCommit& each : commits_) {
      if (parent && each.commit == *parent && each.verdict == "good") return &each;
    }
    return &commits_.front();
  }

  Result<Finding> verdict() const {
    if (found_.size() > 1) return undecided();
    const std::string& commit = found_.front();
    const auto bad = std::ranges::find(commits_, commit, &JudgedCommit::commit);
    PLIMSOLL_TRY_ASSIGN(const JudgedCommit* const good, good_before(commit));
    const comparison::DiffPoint point = point_between(*good->digest, *bad->digest);
    Finding finding = comparison::finding_of(point, kBisectCausesShown);
    const std::string unused = comparison::unused_text(point);
    PLIMSOLL_TRY_ASSIGN(const std::string subject, subject_of(tree_, commit));
    PLIMSOLL_TRY_ASSIGN(const std::string author,
                        tree_.git({"show", "--no-patch", "--format=By %an on %as.", commit}));
    finding.evidence.insert(finding.evidence.begin(), finding.title + ".");
    if (!unused.empty()) finding.evidence.push_back(unused);
    finding.evidence.push_back(author);
    finding.title = short_hash(commit) + " is the first bad commit: " + subject;
    if (finding.steps.empty()) finding.steps = {{"Review it: git show " + short_hash(commit)}};
    return finding;
  }

  comparison::DiffPoint point_between(const report::Digest& good, const report::Digest& bad) const {
    for (comparison::DiffPoint& point :
         comparison::compare(good, bad, {.at = cause_.point().name}).points) {
      if (point.device == cause_.point().device) return std::move(point);
    }
    return cause_.point();
  }

  Result<Finding> undecided() const {
    Finding finding = comparison::finding_of(cause_.point(), kBisectCausesShown);
    finding.evidence.insert(finding.evidence.begin(), finding.title + ".");
    finding.title = "the first bad commit is one of these " + std::to_string(found_.size()) +
                    ": some of them cannot be measured";
    for (const std::string& commit : found_) {
      PLIMSOLL_TRY_ASSIGN(const std::string subject, subject_of(tree_, commit));
      finding.evidence.push_back(short_hash(commit) + " " + subject);
    }
    finding.steps = {{"Make these commits run, or review them."}};
    return finding;
  }

  Result<std::string> commits_table(const exporters::terminal::TextOptions& options) const {
    using Align = text::TextTable::Align;
    text::TextTable table({{"", Align::kWords},
                           {"cause", Align::kNumber},
                           {point_name(), Align::kNumber},
                           {"commit", Align::kWords}});
    for (const JudgedCommit& each : commits_) {
      PLIMSOLL_TRY_ASSIGN(const std::string subject, subject_of(tree_, each.commit));
      const bool is_skipped = each.verdict == "skip";
      const std::string commit = short_hash(each.commit) + " " + subject;
      table.add_row({is_skipped ? "skipped" : each.verdict,
                     is_skipped ? "-" : growth_text(each.growth),
                     is_skipped ? "-" : base::bytes_text(point_bytes(*each.digest)),
                     text::printable(commit)});
    }
    return table.to_text(options.width, options.color);
  }

  std::int64_t point_bytes(const report::Digest& digest) const {
    for (const report::DigestPoint& point : digest.points) {
      if (point.device == cause_.point().device && point.name == cause_.point().name) {
        return point.bytes;
      }
    }
    return 0;
  }

  const GitWorktree& tree_;
  const BisectedProgram& program_;
  TrackedCause cause_;
  std::vector<JudgedCommit> commits_;  // good, bad, then as they were tested
  std::vector<std::string> found_;
};

Result<BisectedProgram> chosen_program(const Arguments& arguments) {
  BisectedProgram program{.words = arguments.values("COMMAND"),
                          .recording = arguments.value("--recording")};
  if (!arguments.has("--budget")) {
    if (!program.words.empty()) return program;
    return make_error(ErrorCode::kInvalidArgument,
                      "plimsoll bisect needs a COMMAND after --, or --budget NAME");
  }
  const std::string name = arguments.value("--budget");
  if (!program.words.empty() || !program.recording.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--budget " + name + " takes the command of the budget: give no other one");
  }
  PLIMSOLL_TRY_ASSIGN(const budgets::BudgetFile file,
                      budgets::read_budgets(budgets::kUsualBudgetFile));
  const auto budget = std::ranges::find(file.budgets, name, &budgets::Budget::name);
  if (budget == file.budgets.end() || budget->run.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      file.path + " has no budget " + name + " with a command to run");
  }
  program.words = budgets::split_words(budget->run).value_or(std::vector<std::string>());
  return program;
}

Result<int> bisect(const Arguments& arguments) {
  PLIMSOLL_TRY_ASSIGN(const BisectedProgram program, chosen_program(arguments));
  PLIMSOLL_TRY_ASSIGN(const std::string good_commit, commit_of(arguments.value("--good")));
  PLIMSOLL_TRY_ASSIGN(const std::string bad_commit, commit_of(arguments.value("--bad")));
  if (good_commit == bad_commit) {
    return make_error(ErrorCode::kInvalidArgument, "--good and --bad are the same commit");
  }
  if (!is_ancestor(good_commit, bad_commit)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the good commit is not an ancestor of the bad one: " +
                          short_hash(good_commit) + ", " + short_hash(bad_commit));
  }
  PLIMSOLL_TRY_ASSIGN(const std::unique_ptr<GitWorktree> tree, GitWorktree::add(bad_commit));
  PLIMSOLL_TRY(check_recording(*tree, program));
  PLIMSOLL_TRY(tree->check_out(good_commit));
  PLIMSOLL_TRY(check_recording(*tree, program));
  PLIMSOLL_TRY_ASSIGN(JudgedCommit good, run_end(*tree, program, good_commit, "good"));
  PLIMSOLL_TRY_ASSIGN(JudgedCommit bad, run_end(*tree, program, bad_commit, "bad"));
  const std::string id = arguments.value("--cause");
  const report::Digest before = *good.digest;
  const report::Digest after = *bad.digest;
  auto cause = TrackedCause::find(before, after, id);
  if (!cause) {
    const std::vector<std::string> ids = comparison::cause_ids(before, after);
    return make_error(ErrorCode::kInvalidArgument,
                      ids.empty() ? "the two commits do not differ by more than 0.1% at any point"
                                  : "the two commits do not differ by a cause " + id +
                                        "; they differ by " + base::joined(ids));
  }
  Bisection bisection(*tree, program, std::move(good), std::move(bad), *std::move(cause));
  PLIMSOLL_TRY(tree->check_out(bad_commit));
  PLIMSOLL_TRY(bisection.run());
  PLIMSOLL_TRY_ASSIGN(const std::string text,
                      bisection.text(output_width(kWidestBisection), chosen_color(arguments)));
  PLIMSOLL_TRY(print(text));
  return kFine;
}

int run_bisect(const Arguments& arguments) {
  const auto exit_code = bisect(arguments);
  return exit_code ? *exit_code : complain(exit_code.error());
}

}  // namespace

Command bisect_command() {
  Command command;
  command.name = "bisect";
  command.summary = "Find the commit that made a program use more memory";
  command.description =
      "Records the program at a good and at a bad commit, takes the largest cause of the "
      "difference, and lets git bisect find the commit that introduced it. Other changes do not "
      "matter, and commits at which the program does not run are skipped. Everything is checked "
      "out in a temporary working tree: your files stay as they are.";
  command.positionals = {{"COMMAND",
                          "What to record, as after plimsoll run: a script and its arguments, in "
                          "the folder that corresponds to the current one. Write -- first.",
                          Count::kAny}};
  command.options = {
      {"--good", "", "REV", "A commit that used less memory.", {}, false, true},
      {"--bad", "", "REV", "A later commit that uses more.", {}, false, true},
      {"--budget", "", "NAME",
       "Run the command of this budget in plimsoll.budgets.yaml (the current file, not that of "
       "each commit)."},
      {"--cause", "", "ID",
       "Track the largest cause of this kind (plimsoll diff --json lists them).",
       comparison::known_cause_ids()},
      {"--recording", "", "PATH",
       "COMMAND is any program, and writes this recording, snapshot or digest itself. The path is "
       "relative to the current folder."},
      color_option(),
  };
  command.sections = {
      {"examples",
       {{"plimsoll bisect --good v1.2 --bad HEAD -- train.py --steps 8", "which commit was it?"},
        {"plimsoll bisect --good v1.2 --bad HEAD --recording oom.pickle -- make", "any program"}}}};
  command.run = run_bisect;
  return command;
}

}  // namespace plimsoll::cli
