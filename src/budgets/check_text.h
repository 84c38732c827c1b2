// A check as text: what is exceeded and why, then every limit. Texts are printable, whatever a
// recording or a budget file contains.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "budgets/check.h"
#include "text/style.h"

namespace plimsoll::budgets {

// A finding of a check, and where it belongs.
struct Notice {
  const CheckedBudget* budget = nullptr;
  const CheckedLimit* limit = nullptr;    // null: the budget could not be checked
  const CheckFinding* finding = nullptr;  // null: as above
  bool is_failure = false;
};

// Failures first, each in the order of the file.
std::vector<Notice> notices(const Check& check);

// "FAILED net: +8.0 MiB: size of ..." of the first failure, or "OK: 3 limits of 1 budget are met."
std::string verdict_text(const Check& check);
// "FAILED net: ", "WARNING net: " and the finding's title.
std::string headline(const Notice& notice);
// The evidence and the next step, one line each.
std::vector<std::string> details(const CheckFinding& finding);

// One row for each limit: verdict, budget, limit, bytes, what is allowed.
std::vector<std::vector<std::string>> limit_rows(const Check& check);

// Budgets that could not be checked are left out: the command prints their errors to stderr.
std::string to_text(const Check& check, std::size_t width, text::Color color);

}  // namespace plimsoll::budgets
