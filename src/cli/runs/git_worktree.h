// A working tree of the user's git repository in a temporary folder, to check out and run other
// commits. The user's own files, index, branches and bisection stay as they are.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/runs/scratch_folder.h"
#include "plimsoll/result.h"

namespace plimsoll::cli {

// The commit that a name stands for in the repository around the current folder.
Result<std::string> commit_of(const std::string& revision);
bool is_ancestor(const std::string& commit, const std::string& of);

class GitWorktree {
 public:
  // Checks out this commit.
  static Result<std::unique_ptr<GitWorktree>> add(const std::string& commit);
  GitWorktree(const GitWorktree&) = delete;
  GitWorktree& operator=(const GitWorktree&) = delete;
  ~GitWorktree();

  const std::string& path() const { return path_; }
  // The folder in it that corresponds to the current one.
  const std::string& folder() const { return folder_; }

  // Whether the path, with all symbolic links followed, is inside the working tree. The end of the
  // path need not exist.
  bool contains(const std::string& path) const;

  // Runs git in the working tree; returns what it prints. A failure is an error with git's
  // sentence.
  Result<std::string> git(const std::vector<std::string>& words) const;
  // Removes what a run has changed or created; ignored files stay.
  Status clean() const;
  Status check_out(const std::string& commit) const;

 private:
  GitWorktree(ScratchFolder scratch, const std::string& prefix);

  ScratchFolder scratch_;
  std::string path_;
  std::string folder_;
};

}  // namespace plimsoll::cli
