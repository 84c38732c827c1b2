// Measures the memory that a budget limits: runs its command, or reads its recordings.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "budgets/budget_file.h"
#include "budgets/measurement.h"
#include "plimsoll/result.h"

namespace plimsoll::cli {

// Called with the paths of recordings while they exist: those of a command are temporary.
using KeepRecordings = std::function<Status(const std::vector<std::string>& paths)>;

// Measures each rank, in ascending order. Runs a command `repeats` times.
Result<std::vector<budgets::Runs>> measure(const budgets::BudgetFile& file,
                                           const budgets::Budget& budget, std::uint64_t repeats,
                                           const KeepRecordings& keep);

}  // namespace plimsoll::cli
