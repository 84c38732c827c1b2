#include "cli/runs/budget_files.h"

#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/digest_input.h"

namespace plimsoll::cli {
namespace {

using budgets::Budget;
using budgets::BudgetFile;

// Whether both names lead to the same file, or would if it existed.
bool is_same_file(const std::string& one, const std::string& other) {
  std::error_code error;
  if (std::filesystem::equivalent(one, other, error)) return true;
  const auto full = std::filesystem::weakly_canonical(one, error);
  if (error) return false;
  return full == std::filesystem::weakly_canonical(other, error) && !error;
}

// Whether `path` is "train.rank3.json", the baseline of a rank, for the baseline "train.json".
bool is_of_rank(const std::filesystem::path& path, const std::filesystem::path& baseline) {
  const std::string name = path.filename().string();
  const std::string extension = baseline.extension() == ".json" ? ".json" : "";
  const std::string whole = baseline.filename().string();
  const std::string begin = whole.substr(0, whole.size() - extension.size()) + ".rank";
  if (!name.starts_with(begin) || !name.ends_with(extension)) return false;
  return is_same_file(path.parent_path().empty() ? "." : path.parent_path().string(),
                      baseline.parent_path().empty() ? "." : baseline.parent_path().string());
}

// What `output` is to the budget: "the baseline"; empty if it is nothing.
std::string role_in(const Budget& budget, const BudgetFile& file, const std::string& output) {
  const std::string folder = folder_of(file.path);
  const auto is_output = [&](const std::string& path) { return is_same_file(path, output); };
  if (!budget.baseline.empty()) {
    const std::string baseline = in_folder(folder, budget.baseline);
    if (is_output(baseline) || is_of_rank(output, baseline)) return "the baseline";
  }
  if (!budget.recording.empty()) {
    const std::vector<std::string> recordings = matching_files(file, budget.recording);
    return std::ranges::any_of(recordings, is_output) ? "a recording" : "";
  }
  const auto words = budgets::split_words(budget.run);
  const bool is_in_run = words && std::ranges::any_of(*words, [&](const std::string& word) {
                           return is_output(in_folder(folder, word));
                         });
  return is_in_run ? "named by the run" : "";
}

Error baseline_error(ErrorCode code, const BudgetFile& file, const Budget& budget,
                     const std::string& sentence) {
  return make_error(code, file.path + ":" + std::to_string(budget.baseline_line) + ": " +
                              budget.name + ": " + sentence);
}

}  // namespace

std::string folder_of(const std::string& budget_file) {
  const std::string folder = std::filesystem::path(budget_file).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string in_folder(const std::string& folder, const std::string& path) {
  return folder == "." || path.starts_with('/') ? path : folder + "/" + path;
}

std::vector<std::string> matching_files(const BudgetFile& file, const std::string& pattern) {
  std::string around;
  for (const char letter : folder_of(file.path)) {
    if (std::strchr("*?[\\", letter) != nullptr) around += '\\';
    around += letter;
  }
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(in_folder(around, pattern).c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  return paths;
}

Status check_baselines_differ(const BudgetFile& file) {
  const std::string folder = folder_of(file.path);
  std::vector<const Budget*> earlier;
  for (const Budget& budget : file.budgets) {
    if (budget.baseline.empty()) continue;
    const std::string path = in_folder(folder, budget.baseline);
    for (const Budget* const other : earlier) {
      if (!is_same_file(path, in_folder(folder, other->baseline))) continue;
      return baseline_error(ErrorCode::kInvalidArgument, file, budget,
                            "baseline " + budget.baseline + " is the same file as " +
                                other->baseline + ", the baseline of " + other->name +
                                "; give each budget a file of its own");
    }
    earlier.push_back(&budget);
  }
  return {};
}

Status check_not_named(const std::string& output, const BudgetFile& file) {
  if (output == "-") return {};
  const auto refused = [&](const std::string& role) {
    return make_error(ErrorCode::kInvalidArgument,
                      output + " is " + role + "; give another name with --output");
  };
  if (is_same_file(output, file.path)) return refused("the budget file");
  for (const Budget& budget : file.budgets) {
    const std::string role = role_in(budget, file, output);
    if (!role.empty()) return refused(role + " of " + budget.name);
  }
  return {};
}

Status check_baseline(const BudgetFile& file, const Budget& budget, const std::string& path,
                      BaselineUse use) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto refused = [&](const std::string& sentence) {
    return baseline_error(ErrorCode::kInvalidArgument, file, budget, sentence);
  };
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::not_found && fs::is_symlink(fs::symlink_status(path, error))) {
    return refused("the baseline " + path +
                   " is a symbolic link that leads to no file; remove it, or name another file");
  }
  if (type == fs::file_type::not_found && use == BaselineUse::kWrite) return {};
  if (type == fs::file_type::not_found) {
    return baseline_error(
        ErrorCode::kNotFound, file, budget,
        "there is no baseline " + path + " yet; write it with plimsoll check --update");
  }
  if (type != fs::file_type::regular && type != fs::file_type::none) {
    return refused("the baseline " + path + " is a " +
                   (type == fs::file_type::directory ? "folder" : "pipe or device") +
                   "; name a regular file");
  }
  if (::access(path.c_str(), R_OK) != 0) {
    return baseline_error(ErrorCode::kPermission, file, budget,
                          "cannot read the baseline " + path + ": " + std::strerror(errno));
  }
  if (!budget.recording.empty()) {
    for (const std::string& recording : matching_files(file, budget.recording)) {
      if (!is_same_file(path, recording)) continue;
      return refused("the baseline " + path + " is the recording itself; name another file");
    }
  }
  if (use == BaselineUse::kRead) return {};
  // A damaged digest is an error, and is replaced.
  const auto digest = engine::read_digest(path);
  if (!digest || *digest) return {};
  return refused(path +
                 " is not a digest, so --update does not replace it; remove it, or name "
                 "another file as the baseline");
}

Result<report::Digest> read_baseline(const BudgetFile& file, const Budget& budget,
                                     const std::string& path) {
  PLIMSOLL_TRY_ASSIGN(auto digest, engine::read_digest(path));
  if (!digest) {
    return baseline_error(ErrorCode::kCorrupt, file, budget,
                          path +
                              " is not a digest; remove it and write the baseline with "
                              "plimsoll check --update");
  }
  if (digest->source.incomplete) {
    return baseline_error(ErrorCode::kCorrupt, file, budget,
                          "the baseline " + path +
                              " is of an incomplete recording: " + *digest->source.incomplete +
                              "; write it again with plimsoll check --update");
  }
  return std::move(*digest);
}

}  // namespace plimsoll::cli
