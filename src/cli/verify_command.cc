// plimsoll verify: runs a program twice, and overwrites memory after its last use in the second
// run. If the results are the same, nothing has used this memory later.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/scratch_folder.h"
#include "cli/terminal.h"
#include "engine/overwrite_plan.h"

namespace plimsoll::cli {
namespace {

// What adapters/libtorch/overwrite.cc writes.
struct Outcome {
  std::uint64_t overwritten_count = 0;
  std::uint64_t overwritten_bytes = 0;
  std::uint64_t different_row = 0;  // of the plan, plus 1, whose allocation has another size
  std::uint64_t different_bytes = 0;
};

struct ProgramRun {
  int status = 0;
  std::string out;
  std::string digests;  // of parameters and optimizer state: a line for each optimizer step
};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Verification {
 public:
  Verification(std::string folder, std::vector<std::string> words)
      : folder_(std::move(folder)), words_(std::move(words)) {}

  std::string trace() const { return folder_ + "/run.plim"; }
  std::string plan() const { return folder_ + "/plan"; }

  // Runs the program and records it. A plan, unless empty, is the file of what is overwritten.
  Result<ProgramRun> run(const std::string& trace, const std::string& plan) {
    const std::string digests = folder_ + "/digests";
    std::error_code error;
    std::filesystem::remove(digests, error);
    std::vector<std::string> words = {
        "env",
        plan.empty() ? "--unset=PLIMSOLL_OVERWRITE" : "PLIMSOLL_OVERWRITE=" + plan,
        "PLIMSOLL_RUN_LOG=" + folder_ + "/log",
        "PLIMSOLL_DIGESTS=" + digests,
        std::filesystem::read_symlink("/proc/self/exe", error).string(),
        "run",
        "--uses",
        "always",
        "-o",
        trace};
    words.insert(words.end(), words_.begin(), words_.end());
    PLIMSOLL_TRY_ASSIGN(const ProgramOutput output, read_program(words));
    errors_ = output.errors;
    return ProgramRun{output.status, output.out, content_of(digests)};
  }

  // Runs the program while the first `count` storages are overwritten.
  Result<ProgramRun> overwrite(const engine::OverwritePlan& plan, std::size_t count) {
    std::error_code error;
    std::filesystem::remove(this->plan() + ".outcome", error);
    PLIMSOLL_TRY(plan.write(this->plan(), count));
    return run(folder_ + "/overwritten.plim", this->plan());
  }

  Outcome outcome() const {
    Outcome outcome;
    std::ifstream(plan() + ".outcome", std::ios::binary)
        .read(reinterpret_cast<char*>(&outcome), sizeof(outcome));
    return outcome;
  }

  const std::string& errors() const { return errors_; }  // of the last run

 private:
  std::string folder_;
  std::vector<std::string> words_;
  std::string errors_;
};

// What differs between two runs; empty: nothing.
std::string difference(const ProgramRun& first, const ProgramRun& second) {
  if (first.status != second.status) {
    return "the exit status is " + std::to_string(second.status) + " instead of " +
           std::to_string(first.status);
  }
  if (first.digests != second.digests) {
    const auto differs = std::ranges::mismatch(first.digests, second.digests).in1;
    const auto step = std::count(first.digests.begin(), differs, '\n') + 1;
    return "parameters or optimizer state differ after optimizer step " + base::format_count(step);
  }
  return first.out == second.out ? "" : "the standard output differs";
}

// The first storage whose overwriting changes the results, by bisection.
Result<std::size_t> first_culprit(Verification& verification, const engine::OverwritePlan& plan,
                                  const ProgramRun& first) {
  const std::vector<std::size_t> rows = plan.overwritten();
  std::size_t same = 0;
  std::size_t different = rows.size();
  while (different - same > 1) {
    const std::size_t middle = same + (different - same) / 2;
    PLIMSOLL_TRY_ASSIGN(const ProgramRun run, verification.overwrite(plan, middle));
    (difference(first, run).empty() ? same : different) = middle;
  }
  return rows[different - 1];
}

Result<int> verify(const std::vector<std::string>& words) {
  PLIMSOLL_TRY_ASSIGN(const ScratchFolder folder, ScratchFolder::make());
  Verification verification(folder.path(), words);
  PLIMSOLL_TRY_ASSIGN(const ProgramRun first, verification.run(verification.trace(), ""));
  if (!std::filesystem::exists(verification.trace())) {
    return make_error(ErrorCode::kInvalidArgument,
                      "nothing was recorded: " + verification.errors());
  }
  PLIMSOLL_TRY_ASSIGN(const engine::OverwritePlan plan,
                      engine::overwrite_plan(verification.trace()));
  PLIMSOLL_TRY_ASSIGN(const ProgramRun second, verification.overwrite(plan, SIZE_MAX));
  const Outcome outcome = verification.outcome();
  const std::string found = difference(first, second);
  if (found.empty() && outcome.different_row == 0) {
    PLIMSOLL_TRY(print("identical: " + base::format_count(outcome.overwritten_count) +
                       " storages, " + base::bytes_text(outcome.overwritten_bytes) +
                       " were overwritten after their last use, and no result changed\n"));
    return kFine;
  }
  PLIMSOLL_TRY_ASSIGN(const ProgramRun third, verification.run(folder.path() + "/third.plim", ""));
  if (!difference(first, third).empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the program itself isn't reproducible: set a seed. Without overwriting, " +
                          difference(first, third));
  }
  if (outcome.different_row != 0) {
    const std::size_t row = outcome.different_row - 1;
    return make_error(ErrorCode::kInvalidArgument,
                      "the runs cannot be compared: allocation " + base::format_count(row + 1) +
                          ", at " + plan.places[row] + ", has " +
                          base::format_count(outcome.different_bytes) + " bytes instead of " +
                          base::format_count(plan.allocations[row].size_bytes));
  }
  PLIMSOLL_TRY_ASSIGN(const std::size_t row, first_culprit(verification, plan, first));
  PLIMSOLL_TRY(print("different: " + found + "\nfirst storage: allocation " +
                     base::format_count(row + 1) + ", " +
                     base::bytes_text(plan.allocations[row].size_bytes) + ", at " +
                     plan.places[row] + ", is used after its last recorded use\n"));
  return kFindingToFailOn;
}

int run_words(const std::vector<std::string>& words) {
  if (words[0].starts_with("-") && words[0] != "-m" && words[0] != "--module") {
    complain(words[0] + " is an unknown option of plimsoll verify (plimsoll verify --help)");
    return kUsageError;
  }
  const Result<int> exit_code = verify(words);
  return exit_code ? *exit_code : complain(exit_code.error());
}

}  // namespace

Command verify_command() {
  Command command;
  command.name = "verify";
  command.summary = "Check the last uses of memory: overwrite it afterwards and compare results";
  command.description =
      "Records the script and runs it again. In the second run, the bytes of each storage on the "
      "CPU are overwritten with 0xFF after the last operator that used it in the first run. The "
      "parameters and the optimizer's state after each optimizer step, the standard output and the "
      "exit status must be the same. If they differ, further runs find the first storage that is "
      "used later, which was read without an operator. Exempt are parameters, buffers, optimizer "
      "state, and memory whose last use is unknown. The program must be reproducible: set a seed.";
  command.positionals = {{"SCRIPT", "Script and its arguments.", Count::kOneOrMore}};
  command.options = {{"--module", "-m", "", "SCRIPT is a module name, as in python -m."}};
  command.sections = {
      {"exit status",
       {{"0", "identical"}, {"1", "different"}, {"2", "the runs cannot be compared"}}},
      {"examples",
       {{"plimsoll verify train.py --steps 8", "a script"},
        {"plimsoll verify -m package.train", "a module"}}}};
  command.run_words = run_words;
  return command;
}

}  // namespace plimsoll::cli
