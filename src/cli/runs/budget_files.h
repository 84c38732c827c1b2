// The files that a budget file names: which of them may be read, and which may be replaced.
#pragma once

#include <string>
#include <vector>

#include "budgets/budget_file.h"
#include "plimsoll/result.h"
#include "report/digest.h"

namespace plimsoll::cli {

// The folder of the budget file, to which its paths are relative.
std::string folder_of(const std::string& budget_file);
std::string in_folder(const std::string& folder, const std::string& path);

// The files that the pattern matches, relative to the budget file, in order of name.
std::vector<std::string> matching_files(const budgets::BudgetFile& file,
                                        const std::string& pattern);

// Returns an error if two budgets have the same file as their baseline, also through links.
Status check_baselines_differ(const budgets::BudgetFile& file);

// Returns an error if writing `output` would replace a file that a budget names.
Status check_not_named(const std::string& output, const budgets::BudgetFile& file);

enum class BaselineUse : unsigned char { kRead, kWrite };

// Returns an error if `path` cannot be the baseline of the budget: it must be read but does
// not exist; it is not a regular file; it is the recording; or it is not a digest but would be
// replaced.
Status check_baseline(const budgets::BudgetFile& file, const budgets::Budget& budget,
                      const std::string& path, BaselineUse use);

Result<report::Digest> read_baseline(const budgets::BudgetFile& file, const budgets::Budget& budget,
                                     const std::string& path);

}  // namespace plimsoll::cli
