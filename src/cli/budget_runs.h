// Measures the memory that a budget limits: runs its command, or reads its recordings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "budgets/budget_file.h"
#include "budgets/measurement.h"
#include "plimsoll/result.h"

namespace plimsoll::cli {

// The folder of the budget file. The paths in the file are relative to it.
std::string folder_of(const std::string& budget_file);
std::string in_folder(const std::string& folder, const std::string& path);

// Measures each rank, in ascending order. Runs a command `repeats` times.
Result<std::vector<budgets::Runs>> measure(const budgets::BudgetFile& file,
                                           const budgets::Budget& budget, std::uint64_t repeats);

}  // namespace plimsoll::cli
