#include "cli/runs/git_worktree.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/runs/child_process.h"

namespace plimsoll::cli {
namespace {

std::string trimmed(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Without variables that would direct git to another repository or index, without hooks, and
// without translation, because some of the output is parsed. Searches for the repository below
// `ceiling`, if that is not empty.
Result<std::string> run_git(const std::string& folder, const std::vector<std::string>& words,
                            const std::string& ceiling = {}) {
  std::vector<std::string> line = {"env",           "-u", "GIT_DIR",        "-u",
                                   "GIT_WORK_TREE", "-u", "GIT_INDEX_FILE", "LC_ALL=C"};
  if (!ceiling.empty()) line.push_back("GIT_CEILING_DIRECTORIES=" + ceiling);
  for (const char* const word : {"git", "-C", folder.c_str(), "-c", "core.hooksPath=/dev/null",
                                 "-c", "advice.detachedHead=false"}) {
    line.emplace_back(word);
  }
  line.insert(line.end(), words.begin(), words.end());
  PLIMSOLL_TRY_ASSIGN(const ProgramOutput output, read_program(line));
  if (output.status == 0) return trimmed(output.out);
  if (output.status == 127) {
    return make_error(ErrorCode::kNotFound, "git is not installed");
  }
  std::string said = trimmed(output.errors.empty() ? output.out : output.errors);
  said = said.substr(0, said.find('\n'));
  if (said.starts_with("fatal: ")) said.erase(0, 7);
  return make_error(ErrorCode::kInvalidArgument, "git " + words.front() + ": " + said);
}

}  // namespace

Result<std::string> commit_of(const std::string& revision) {
  PLIMSOLL_TRY(run_git(".", {"rev-parse", "--git-dir"}));
  auto commit = run_git(
      ".", {"rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"});
  if (commit) return commit;
  return make_error(ErrorCode::kInvalidArgument, revision + " is not a commit of this repository");
}

bool is_ancestor(const std::string& commit, const std::string& of) {
  return run_git(".", {"merge-base", "--is-ancestor", commit, of}).ok();
}

GitWorktree::GitWorktree(ScratchFolder scratch, const std::string& prefix)
    : scratch_(std::move(scratch)),
      path_(scratch_.path() + "/tree"),
      folder_(prefix.empty() ? path_ : path_ + "/" + prefix.substr(0, prefix.size() - 1)) {}

Result<std::unique_ptr<GitWorktree>> GitWorktree::add(const std::string& commit) {
  PLIMSOLL_TRY_ASSIGN(const std::string prefix, run_git(".", {"rev-parse", "--show-prefix"}));
  PLIMSOLL_TRY_ASSIGN(ScratchFolder scratch, ScratchFolder::make());
  std::unique_ptr<GitWorktree> tree(new GitWorktree(std::move(scratch), prefix));
  PLIMSOLL_TRY(run_git(".", {"worktree", "add", "--detach", tree->path_, commit}));
  return tree;
}

GitWorktree::~GitWorktree() {
  static_cast<void>(run_git(".", {"worktree", "remove", "--force", path_}));
}

bool GitWorktree::contains(const std::string& path) const {
  std::error_code error;
  const std::filesystem::path tree = std::filesystem::canonical(path_, error);
  if (error) return false;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
  if (error) return false;
  return std::ranges::mismatch(tree, real).in1 == tree.end();
}

Result<std::string> GitWorktree::git(const std::vector<std::string>& words) const {
  // If a run removes .git, git must not find a repository around the temporary folder and reset it.
  return run_git(path_, words, scratch_.path());
}

Status GitWorktree::clean() const {
  PLIMSOLL_TRY(git({"reset", "--hard", "--quiet"}));
  PLIMSOLL_TRY(git({"clean", "-fdq"}));
  return {};
}

Status GitWorktree::check_out(const std::string& commit) const {
  PLIMSOLL_TRY(clean());
  PLIMSOLL_TRY(git({"checkout", "--quiet", "--detach", commit}));
  return {};
}

}  // namespace plimsoll::cli
