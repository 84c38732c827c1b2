// Formats a check as text: what is exceeded and why, then every limit. Escapes control characters
// from recordings and budget files.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "budgets/check.h"
#include "text/style.h"

namespace plimsoll::budgets {

// A finding of a check, with its budget and limit.
struct Notice {
  const CheckedBudget* budget = nullptr;
  const CheckedLimit* limit = nullptr;    // null: the budget could not be checked
  const CheckFinding* finding = nullptr;  // null: the budget could not be checked
  bool is_failure = false;
};

// Failures first, then the others, both in the order of the file.
std::vector<Notice> notices(const Check& check);

// "FAILED net: +8.0 MiB: size of ..." for the first failure, or "OK: 3 limits of 1 budget are met."
std::string verdict_text(const Check& check);
// "FAILED net: ", "WARNING net: " or "INFO net: ", followed by the finding's title.
std::string headline(const Notice& notice);
// The evidence and the next step, one line each.
std::vector<std::string> details(const CheckFinding& finding);

// One row per limit: verdict, budget, bytes, allowed bytes, name of the limit.
std::vector<std::vector<std::string>> limit_rows(const Check& check);

// Omits budgets that could not be checked: the command prints their errors to stderr.
std::string to_text(const Check& check, std::size_t width, text::Color color);

}  // namespace plimsoll::budgets
