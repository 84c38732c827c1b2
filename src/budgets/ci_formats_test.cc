#include "budgets/ci_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "budgets/check_text.h"
#include "tests/support/xml_text.h"

namespace plimsoll::budgets {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kHostile =
    "<b>|`*_[x](y)@all #12 GH-12 www.a.b https://a.b $x$ %0A::error::\n\x1b[31m]]>\xff&\"'";

Check check_with(std::size_t limits, const std::string& text) {
  Check check;
  check.path = "plimsoll budgets,v1:.yaml";
  CheckedBudget& budget = check.budgets.emplace_back();
  budget.name = text;
  for (std::size_t i = 0; i < limits; ++i) {
    CheckedLimit limit{.name = "peak on " + text, .line = i + 1, .verdict = Verdict::kExceeded};
    CheckFinding finding;
    finding.id = "over_budget";
    finding.title = "title " + text;
    finding.evidence = {text, std::string(500, 'x')};
    finding.steps = {{text}};
    finding.site = "over_budget/" + text;
    limit.findings.push_back(finding);
    check.budgets.back().limits.push_back(limit);
  }
  return check;
}

TEST(CiFormats, hostile_text_stays_text) {
  const Check check = check_with(2, kHostile);
  EXPECT_EQ(tests::xml_flaw(to_junit(check)), "");
  const std::string github = to_github(check);
  EXPECT_EQ(std::ranges::count(github, '\n'), 2);
  EXPECT_THAT(github, StartsWith("::error file=plimsoll budgets%2Cv1%3A.yaml,line=1,title="));
  EXPECT_THAT(github, HasSubstr("%250A"));
  const std::string markdown = to_markdown(check);
  for (const char* const raw :
       {"<b>", "@all", "#12", "&#64;", "GH-12", "www.a", "//a", "$x$", "[x]", "\x1b"}) {
    EXPECT_THAT(markdown, Not(HasSubstr(raw)));
  }
}

TEST(CiFormats, a_comment_shows_ten_rows_and_stays_within_the_size_limit) {
  const std::string markdown = to_markdown(check_with(500, "net"));
  EXPECT_LE(markdown.size(), kMostCommentBytes);
  EXPECT_THAT(markdown, StartsWith("**FAILED net: title net**\n"));
  EXPECT_TRUE(markdown.ends_with("</details>\n" + std::string(kCommentMark) + "\n"));
  const std::string shown = markdown.substr(0, markdown.find("<details>"));
  EXPECT_EQ(std::ranges::count(shown, '|') / 6, 10 + 2);  // ten rows and two header lines
  EXPECT_THAT(markdown, HasSubstr("does not fit"));
}

TEST(CiFormats, github_shows_ten_of_each_kind) {
  const std::string github = to_github(check_with(12, "net"));
  EXPECT_EQ(std::ranges::count(github, '\n'), 11);
  EXPECT_THAT(github, HasSubstr("2 more errors; see"));
}

TEST(CiFormats, a_budget_that_could_not_be_checked_is_an_error) {
  Check check;
  check.budgets.push_back({.name = "net", .line = 3, .error = "no file matches"});
  EXPECT_THAT(to_markdown(check), StartsWith("**ERROR net: no file matches**"));
  EXPECT_THAT(to_junit(check),
              HasSubstr("<error type=\"not_checked\" message=\"no file matches\""));
  EXPECT_THAT(to_github(check), HasSubstr("line=3,"));
  EXPECT_EQ(to_text(check, 100, text::Color::kOff), "");  // the command prints errors to stderr
}

}  // namespace
}  // namespace plimsoll::budgets
