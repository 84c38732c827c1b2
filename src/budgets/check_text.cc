#include "budgets/check_text.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/finding.h"
#include "base/units.h"
#include "text/layout.h"
#include "text/table.h"

namespace plimsoll::budgets {
namespace {

constexpr std::size_t kWidestCheckProse = 100;
constexpr std::size_t kNarrowestCheck = 60;

text::Style style_of(const Notice& notice) {
  if (notice.is_failure) return text::Style::kCritical;
  return notice.finding->severity == FindingSeverity::kInfo ? text::Style::kInfo
                                                            : text::Style::kWarning;
}

std::string limit_bytes_text(const std::optional<std::int64_t>& bytes) {
  return bytes ? base::bytes_text(*bytes) : std::string("-");
}

std::string notice_text(const Notice& notice, std::size_t width, text::Color color) {
  const std::string line = headline(notice);
  const std::size_t end = line.find(' ');  // of FAILED, WARNING or INFO
  std::string out = text::styled(line.substr(0, end), style_of(notice), color) +
                    text::wrap(line, 2, width).substr(end) + "\n";
  for (const std::string& fact : notice.finding->evidence) {
    out += "  - " + text::wrap(text::printable(fact), 4, width) + "\n";
  }
  const char* mark = "  → ";
  for (const FindingStep& step : notice.finding->steps) {
    out += mark + text::wrap(text::printable(step_text(step)), 4, width) + "\n";
    mark = "    or: ";
  }
  return out;
}

std::string accepted_text(const CheckedBudget& budget, std::size_t width) {
  std::string out;
  for (std::size_t i = 0; i < budget.accepted.size(); ++i) {
    const std::string fact = text::printable(budget.accepted[i]);
    out += i == 0 ? text::wrap("UPDATED " + text::printable(budget.name) + ": " + fact, 2, width)
                  : "  - " + text::wrap(fact, 4, width);
    out += "\n";
  }
  return out;
}

}  // namespace

bool is_failure_of(const CheckedLimit& limit, const CheckFinding& finding) {
  const bool is_note = finding.id == "baseline_differs" || finding.id == kChildrenNotJudged;
  return limit.verdict == Verdict::kExceeded && !is_note;
}

std::vector<Notice> notices(const Check& check) {
  std::vector<Notice> all;
  for (const CheckedBudget& budget : check.budgets) {
    if (!budget.error.empty()) all.push_back({&budget, nullptr, nullptr, true});
    for (const CheckedLimit& limit : budget.limits) {
      for (const CheckFinding& finding : limit.findings) {
        all.push_back({&budget, &limit, &finding, is_failure_of(limit, finding)});
      }
    }
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Notice::is_failure);
  return all;
}

std::string headline(const Notice& notice) {
  const std::string name = text::printable(notice.budget->name) + ": ";
  if (notice.finding == nullptr) return "ERROR " + name + text::printable(notice.budget->error);
  const char* const word = notice.is_failure                                    ? "FAILED "
                           : notice.finding->severity == FindingSeverity::kInfo ? "INFO "
                                                                                : "WARNING ";
  return word + name + text::printable(notice.finding->title);
}

std::vector<std::string> details(const CheckFinding& finding) {
  std::vector<std::string> lines;
  for (const std::string& fact : finding.evidence) lines.push_back(text::printable(fact));
  const char* mark = "";
  for (const FindingStep& step : finding.steps) {
    lines.push_back(mark + text::printable(step_text(step)));
    mark = "or: ";
  }
  return lines;
}

std::string verdict_text(const Check& check) {
  const std::vector<Notice> all = notices(check);
  if (!all.empty() && all.front().is_failure) return headline(all.front());
  const std::size_t limits = check.count(Verdict::kMet);
  const std::size_t unknown = check.count(Verdict::kUnknown);
  if (unknown > 0) {
    return "NO VERDICT: " + base::counted(unknown, "limit") + (unknown == 1 ? " varies" : " vary") +
           " too much to judge; " + base::counted(limits, "other limit") +
           (limits == 1 ? " is met." : " are met.");
  }
  return "OK: " + base::counted(limits, "limit") + " of " +
         base::counted(check.budgets.size(), "budget") + (limits == 1 ? " is met." : " are met.");
}

std::vector<std::vector<std::string>> limit_rows(const Check& check) {
  std::vector<std::vector<std::string>> rows;
  for (const Verdict verdict : {Verdict::kExceeded, Verdict::kUnknown, Verdict::kMet}) {
    const char* const word = verdict == Verdict::kMet        ? "ok"
                             : verdict == Verdict::kExceeded ? "failed"
                                                             : "no verdict";
    for (const CheckedBudget& budget : check.budgets) {
      for (const CheckedLimit& limit : budget.limits) {
        if (limit.verdict != verdict) continue;
        const std::string growth =
            limit.name.starts_with("baseline") && limit.bytes.value_or(0) > 0 ? "+" : "";
        rows.push_back(
            {word, text::printable(budget.name), growth + limit_bytes_text(limit.bytes),
             limit_bytes_text(limit.limit_bytes),
             text::printable(limit.name + (limit.point.empty() ? "" : ": ") + limit.point)});
      }
    }
  }
  return rows;
}

std::string to_text(const Check& check, std::size_t width, text::Color color) {
  width = std::max(width, kNarrowestCheck);
  const std::size_t prose = std::min(width, kWidestCheckProse);
  std::string out;
  const std::vector<Notice> all = notices(check);
  const bool has_failed = !all.empty() && all.front().is_failure;
  const bool is_judged = check.count(Verdict::kUnknown) == 0;
  const text::Style style = is_judged ? text::Style::kGood : text::Style::kWarning;
  if (!has_failed) {
    out += text::styled(text::wrap(verdict_text(check), 2, prose), style, color) + "\n";
  }
  for (const Notice& notice : all) {
    if (notice.finding != nullptr) out += notice_text(notice, prose, color);
  }
  for (const CheckedBudget& budget : check.budgets) out += accepted_text(budget, prose);
  using Align = text::TextTable::Align;
  text::TextTable table({{"", Align::kWords},
                         {"budget", Align::kWords},
                         {"bytes", Align::kNumber},
                         {"allowed", Align::kNumber},
                         {"limit", Align::kWords}});
  for (std::vector<std::string>& row : limit_rows(check)) {
    const text::Style row_style = row.front() == "ok"       ? text::Style::kPlain
                                  : row.front() == "failed" ? text::Style::kCritical
                                                            : text::Style::kWarning;
    table.add_row(std::move(row), row_style);
  }
  if (!table.empty()) out += "\n" + table.to_text(width, color);
  return out;
}

}  // namespace plimsoll::budgets
