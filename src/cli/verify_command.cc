// plimsoll verify: runs a program twice, and overwrites memory after its last use in the second
// run. If the results are the same, nothing has used this memory later.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/line/exit_code.h"
#include "cli/line/interruption.h"
#include "cli/line/terminal.h"
#include "cli/runs/child_process.h"
#include "cli/runs/scratch_folder.h"
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

Error incomparable(const std::string& why) {
  return make_error(ErrorCode::kInvalidArgument, "the runs cannot be compared: " + why);
}

Error interruption() { return make_error(ErrorCode::kInterrupted, "interrupted"); }

// The last line that is not empty: in a traceback, the exception.
std::string last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \r\n");
  if (end == text.npos) return {};
  text = text.substr(0, end + 1);
  return std::string(text.substr(text.find_last_of("\r\n") + 1));  // npos + 1 is 0
}

// Copies our standard input into a file, which each run reads. A terminal counts as empty.
Status copy_input(const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  std::array<char, 65536> part{};
  pollfd input{STDIN_FILENO, POLLIN, 0};
  int timeout_ms = 2000;
  ssize_t size = ::isatty(STDIN_FILENO) == 0 ? 1 : 0;
  while (size > 0) {
    const int ready = ::poll(&input, 1, timeout_ms);  // a signal ends poll(), but not read()
    if (is_interrupted()) return interruption();
    if (ready == 0) {
      complain("waiting for the end of standard input, which each run reads; </dev/null is empty");
      timeout_ms = -1;
    }
    if (ready <= 0) continue;
    size = ::read(STDIN_FILENO, part.data(), part.size());
    if (size > 0) file.write(part.data(), size);
  }
  file.close();
  return file ? Status() : make_error(ErrorCode::kIo, "cannot write " + path);
}

class Verification {
 public:
  Verification(std::string folder, std::vector<std::string> words)
      : folder_(std::move(folder)), words_(std::move(words)) {}

  std::string trace() const { return folder_ + "/run.plim"; }  // of the first run
  std::string plan() const { return folder_ + "/plan"; }
  std::string input() const { return folder_ + "/in"; }

  // Runs the program and records it. A plan, unless empty, is the file of what is overwritten.
  Result<ProgramRun> run(const std::string& trace, const std::string& plan) {
    if (is_interrupted()) return interruption();
    const std::string digests = folder_ + "/digests";
    std::error_code error;
    std::filesystem::remove(digests, error);
    std::vector<std::string> words = {"env"};
    for (const char* const variable :
         {"PLIMSOLL_OVERWRITE", "PLIMSOLL_MAX_EVENTS", "PLIMSOLL_STACKS"}) {
      words.push_back(std::string("--unset=") + variable);
    }
    if (!plan.empty()) words.push_back("PLIMSOLL_OVERWRITE=" + plan);
    words.insert(words.end(),
                 {"PLIMSOLL_RUN_LOG=" + folder_ + "/log", "PLIMSOLL_DIGESTS=" + digests,
                  std::filesystem::read_symlink("/proc/self/exe", error).string(), "run", "--mode",
                  "full", "--uses", "always", "--adapter", "libtorch", "--force", "-o", trace});
    words.insert(words.end(), words_.begin(), words_.end());
    const ProgramFiles files = {input(), folder_ + "/out", folder_ + "/errors"};
    ProgramRun run;
    PLIMSOLL_TRY_ASSIGN(run.status, run_with_files(words, files));
    run.out = content_of(files.out);
    run.digests = content_of(digests);
    return run;
  }

  // Runs the program again, with nothing overwritten.
  Result<ProgramRun> run_plainly() { return run(folder_ + "/again.plim", ""); }

  // Runs the program while the first `count` storages are overwritten.
  Result<ProgramRun> overwrite(const engine::OverwritePlan& plan, std::size_t count) {
    std::error_code error;
    std::filesystem::remove(this->plan() + ".outcome", error);
    PLIMSOLL_TRY(plan.write(this->plan(), count));
    return run(folder_ + "/again.plim", this->plan());
  }

  Outcome outcome() const {
    Outcome outcome;
    std::ifstream(plan() + ".outcome", std::ios::binary)
        .read(reinterpret_cast<char*>(&outcome), sizeof(outcome));
    return outcome;
  }

  std::string errors() const { return content_of(folder_ + "/errors"); }  // of the last run

 private:
  std::string folder_;
  std::vector<std::string> words_;
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
  // Results that vary from run to run mislead the bisection. Results that alternate do not pass
  // here, because the first and the third of these runs would be alike.
  PLIMSOLL_TRY_ASSIGN(const ProgramRun with, verification.overwrite(plan, different));
  PLIMSOLL_TRY_ASSIGN(const ProgramRun without, verification.overwrite(plan, same));
  PLIMSOLL_TRY_ASSIGN(const ProgramRun control, verification.run_plainly());
  if (difference(first, with).empty() || !difference(first, without).empty() ||
      !difference(first, control).empty()) {
    return incomparable("a repeated run has another result, so the program itself varies");
  }
  return rows[different - 1];
}

Result<int> verify(const std::vector<std::string>& words) {
  PLIMSOLL_TRY_ASSIGN(const ScratchFolder folder, ScratchFolder::make());
  Verification verification(folder.path(), words);
  PLIMSOLL_TRY(copy_input(verification.input()));
  PLIMSOLL_TRY_ASSIGN(const ProgramRun first, verification.run(verification.trace(), ""));
  if (!std::filesystem::exists(verification.trace())) {
    return make_error(ErrorCode::kInvalidArgument,
                      "nothing was recorded: " + last_line(verification.errors()));
  }
  // A program may end with any status of its own. An exception or a signal cuts it short.
  const std::string errors = verification.errors();
  if (first.status != 0 && (first.status >= 128 || errors.find("Traceback (") != errors.npos)) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "the program itself fails, so there is nothing to compare: " +
            (errors.empty() ? "exit status " + std::to_string(first.status) : last_line(errors)));
  }
  const auto planned = engine::overwrite_plan(verification.trace());
  if (!planned) return incomparable("the first run: " + planned.error().message);
  const engine::OverwritePlan& plan = *planned;
  PLIMSOLL_TRY_ASSIGN(const ProgramRun second, verification.overwrite(plan, SIZE_MAX));
  const Outcome outcome = verification.outcome();
  const std::string found = difference(first, second);
  if (found.empty() && outcome.overwritten_count == 0 && first.status != 0) {
    return incomparable("nothing was overwritten before the program ended with exit status " +
                        std::to_string(first.status));
  }
  if (found.empty() && outcome.different_row == 0) {
    PLIMSOLL_TRY(print("identical: " + base::format_count(outcome.overwritten_count) +
                       " storages, " + base::bytes_text(outcome.overwritten_bytes) +
                       " were overwritten after their last use, and no result changed\n"));
    return kFine;
  }
  PLIMSOLL_TRY_ASSIGN(const ProgramRun third, verification.run_plainly());
  if (!difference(first, third).empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the program itself isn't reproducible: set a seed. Without overwriting, " +
                          difference(first, third));
  }
  if (outcome.different_row != 0) {
    const std::size_t row = outcome.different_row - 1;
    return incomparable("allocation " + base::format_count(row + 1) + ", at " + plan.places[row] +
                        ", has " + base::format_count(outcome.different_bytes) +
                        " bytes instead of " +
                        base::format_count(plan.allocations[row].size_bytes));
  }
  if (plan.overwritten().empty()) return incomparable("nothing was overwritten, but " + found);
  PLIMSOLL_TRY_ASSIGN(const std::size_t row, first_culprit(verification, plan, first));
  PLIMSOLL_TRY(print("different: " + found + "\nfirst storage: allocation " +
                     base::format_count(row + 1) + ", " +
                     base::bytes_text(plan.allocations[row].size_bytes) + ", at " +
                     plan.places[row] + ", is used after its last recorded use\n"));
  return kFindingToFailOn;
}

int run_verify(const std::vector<std::string>& words) {
  if (words[0].starts_with("-") && words[0] != "-m" && words[0] != "--module") {
    complain(words[0] + " is an unknown option of plimsoll verify (plimsoll verify --help)");
    return kUsageError;
  }
  watch_for_termination();  // so that the temporary folder is removed
  const Result<int> exit_code = verify(words);
  return exit_code ? *exit_code : complain(exit_code.error());
}

}  // namespace

Command verify_command() {
  Command command;
  command.name = "verify";
  command.summary = "Check the last uses of memory: overwrite it afterwards and compare results";
  command.description =
      "Records the script and runs it again. In the second run, each storage on the CPU is "
      "overwritten after the last operator that used it in the first run. Parameters and optimizer "
      "state after each step, standard output and exit status must be the same. If they differ, "
      "further runs find the first storage that is used later. The program must be reproducible: "
      "set a seed.";
  command.positionals = {{"SCRIPT", "Script and its arguments.", Count::kOneOrMore}};
  command.options = {{"--module", "-m", "", "SCRIPT is a module name, as in python -m."}};
  command.sections = {
      {"exit status",
       {{"0", "identical"}, {"1", "different"}, {"2", "the runs cannot be compared"}}},
      {"examples",
       {
           {"plimsoll verify train.py --steps 8", "a script"},
       }}};
  command.run_words = run_verify;
  return command;
}

}  // namespace plimsoll::cli
