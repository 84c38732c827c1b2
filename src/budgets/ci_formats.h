// A check in the formats of CI systems. All escape what recordings and budget files contain.
#pragma once

#include <string>

#include "budgets/check.h"

namespace plimsoll::budgets {

// The last line of the Markdown, which is not shown: CI finds the comment by it and replaces it.
inline constexpr const char* kCommentMark = "<!-- plimsoll check -->";
inline constexpr std::size_t kMostCommentBytes = 60'000;

// A comment on a pull request: the verdict, ten rows, and the rest folded.
std::string to_markdown(const Check& check);
// JUnit's XML: a suite for each budget, a test case for each limit.
std::string to_junit(const Check& check);
// Workflow commands of GitHub Actions, which become annotations. GitHub shows ten of each kind.
std::string to_github(const Check& check);
// SARIF 2.1.0, for code scanning.
std::string to_sarif(const Check& check);

}  // namespace plimsoll::budgets
