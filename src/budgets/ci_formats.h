// Formats a check for CI systems. Every format escapes text from recordings and budget files.
#pragma once

#include <string>

#include "budgets/check.h"

namespace plimsoll::budgets {

// The last line of the Markdown, which GitHub hides: CI uses it to find and replace its comment.
inline constexpr const char* kCommentMark = "<!-- plimsoll check -->";
inline constexpr std::size_t kMostCommentBytes = 60'000;

// A pull request comment: the verdict, ten rows, and the rest folded.
std::string to_markdown(const Check& check);
// JUnit XML: one suite per budget, one test case per limit.
std::string to_junit(const Check& check);
// GitHub Actions workflow commands that create annotations. GitHub shows ten of each kind.
std::string to_github(const Check& check);

}  // namespace plimsoll::budgets
