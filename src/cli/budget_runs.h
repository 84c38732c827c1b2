// Measures the memory that a budget limits: runs its command, or reads its recordings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "budgets/budget_file.h"
#include "budgets/measurement.h"
#include "plimsoll/result.h"

namespace plimsoll::cli {

// Measures each rank, in ascending order. Runs a command `repeats` times.
Result<std::vector<budgets::Runs>> measure(const budgets::BudgetFile& file,
                                           const budgets::Budget& budget, std::uint64_t repeats);

}  // namespace plimsoll::cli
