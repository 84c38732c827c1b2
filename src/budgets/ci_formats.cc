#include "budgets/ci_formats.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "budgets/check_text.h"
#include "text/layout.h"

namespace plimsoll::budgets {
namespace {

constexpr std::size_t kRowsOfComment = 10;
constexpr std::size_t kMostAnnotations = 10;

using Escapes = std::map<char, std::string_view>;

std::string escaped(std::string_view text, const Escapes& escapes) {
  std::string out;
  for (const char letter : text) {
    const auto found = escapes.find(letter);
    found == escapes.end() ? out.push_back(letter) : void(out.append(found->second));
  }
  return out;
}

// Puts a space of no width after each `begin` in `text`. GitHub links mentions, issues and
// addresses in the text that it has rendered, where a backslash has no effect any more.
void break_links(std::string& text, std::string_view begin) {
  constexpr std::string_view kNoSpace = "&#8203;";
  for (std::size_t at = 0; (at = text.find(begin, at)) != std::string::npos;) {
    at += begin.size();
    text.insert(at, kNoSpace);
    at += kNoSpace.size();
  }
}

// Escapes everything that could form a link, a mention, HTML, a formula or a table cell.
std::string markdown(std::string_view text) {
  static const Escapes kMarkdown = {{'\\', "\\\\"}, {'`', "\\`"},  {'*', "\\*"},  {'_', "\\_"},
                                    {'[', "\\["},   {']', "\\]"},  {'|', "\\|"},  {'~', "\\~"},
                                    {'#', "\\#"},   {'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"},
                                    {'\n', " "},    {'\r', " "},   {'!', "\\!"},  {'$', "\\$"}};
  std::string out = escaped(text, kMarkdown);
  for (const std::string_view begin : {"@", "\\#", "www.", "://", "GH-", "gh-"}) {
    break_links(out, begin);
  }
  return out;
}

std::string xml(std::string_view text) {
  static const Escapes kXml = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  return escaped(text, kXml);
}

std::string data_of_command(std::string_view text) {
  static const Escapes kData = {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}};
  return escaped(text, kData);
}

std::string property_of_command(std::string_view text) {
  static const Escapes kProperty = {
      {'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}, {':', "%3A"}, {',', "%2C"}};
  return escaped(text, kProperty);
}

std::string table_row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + markdown(cell) + " |";
  return line + "\n";
}

std::string table_head() {
  return "| | budget | bytes | allowed | limit |\n|---|---|---:|---:|---|\n";
}

std::uint64_t line_of(const Notice& notice) {
  return notice.limit == nullptr ? notice.budget->line : notice.limit->line;
}

// The headline without FAILED, WARNING or INFO, which each format expresses in its own way.
std::string message_of(const Notice& notice) {
  const std::string line = headline(notice);
  return line.substr(line.find(' ') + 1);
}

std::string all_lines(const CheckFinding& finding, std::string_view separator) {
  std::string text;
  for (const std::string& line : details(finding)) text.append(separator).append(line);
  return text;
}

std::string test_case(const CheckedBudget& budget, const CheckedLimit& limit,
                      const std::string& path) {
  std::string out = "    <testcase classname=\"plimsoll." + xml(text::printable(budget.name)) +
                    "\" name=\"" + xml(text::printable(limit.name)) + "\" file=\"" +
                    xml(text::printable(path)) + "\" line=\"" + std::to_string(limit.line) +
                    "\" time=\"0\"";
  std::string inner;
  std::string also;
  for (const CheckFinding& finding : limit.findings) {
    const bool is_failure = is_failure_of(limit, finding);
    const std::string title = text::printable(finding.title);
    if (is_failure && inner.empty()) {
      inner = "      <failure type=\"" + xml(text::printable(finding.id)) + "\" message=\"" +
              xml(title) + "\">" + xml(title + all_lines(finding, "\n")) + "</failure>\n";
    } else {
      also += title + all_lines(finding, "\n") + "\n";
    }
  }
  if (!also.empty()) inner += "      <system-out>" + xml(also) + "</system-out>\n";
  return out + (inner.empty() ? "/>\n" : ">\n" + inner + "    </testcase>\n");
}

}  // namespace

std::string to_markdown(const Check& check) {
  const bool has_failed = check.count(Verdict::kExceeded) + check.errors() > 0;
  std::string out = has_failed ? "**" + markdown(verdict_text(check)) + "**\n"
                               : markdown(verdict_text(check)) + "\n";
  const auto rows = limit_rows(check);
  if (!rows.empty()) out += "\n" + table_head();
  for (std::size_t i = 0; i < std::min(rows.size(), kRowsOfComment); ++i) {
    out += table_row(rows[i]);
  }
  std::vector<std::string> folded;
  for (const Notice& notice : notices(check)) {
    folded.push_back("\n" + markdown(headline(notice)) + "\n\n");
    if (notice.finding == nullptr) continue;
    for (const std::string& line : details(*notice.finding)) {
      folded.push_back("- " + markdown(line) + "\n");
    }
  }
  if (rows.size() > kRowsOfComment) folded.push_back("\n" + table_head());
  for (std::size_t i = kRowsOfComment; i < rows.size(); ++i) folded.push_back(table_row(rows[i]));

  constexpr std::string_view kCut = "\nThe rest does not fit into a comment.\n";
  const std::string end = "\n</details>\n" + std::string(kCommentMark) + "\n";
  if (folded.empty()) return out + "\n" + kCommentMark + "\n";
  out += "\n<details><summary>Evidence and next steps</summary>\n";
  for (const std::string& part : folded) {
    if (out.size() + part.size() + kCut.size() + end.size() > kMostCommentBytes) {
      out += kCut;
      break;
    }
    out += part;
  }
  return out + end;
}

std::string to_junit(const Check& check) {
  std::string out = "<testsuites name=\"plimsoll\">\n";
  for (const CheckedBudget& budget : check.budgets) {
    const auto failures =
        std::ranges::count(budget.limits, Verdict::kExceeded, &CheckedLimit::verdict);
    const bool is_error = !budget.error.empty();
    const std::string name = xml(text::printable(budget.name));
    out += "  <testsuite name=\"" + name + "\" tests=\"" +
           std::to_string(budget.limits.size() + (is_error ? 1 : 0)) + "\" failures=\"" +
           std::to_string(failures) + "\" errors=\"" + (is_error ? "1" : "0") + "\">\n";
    for (const CheckedLimit& limit : budget.limits) out += test_case(budget, limit, check.path);
    if (is_error) {
      out += "    <testcase classname=\"plimsoll." + name + "\" name=\"check\" time=\"0\">\n" +
             "      <error type=\"not_checked\" message=\"" + xml(text::printable(budget.error)) +
             "\"/>\n    </testcase>\n";
    }
    out += "  </testsuite>\n";
  }
  return out + "</testsuites>\n";
}

std::string to_github(const Check& check) {
  std::string out;
  std::map<std::string_view, std::size_t> counts;
  const std::vector<Notice> all = notices(check);
  for (const Notice& notice : all) {
    const bool is_info =
        notice.finding != nullptr && notice.finding->severity == FindingSeverity::kInfo;
    const std::string_view kind = notice.is_failure ? "error" : is_info ? "notice" : "warning";
    if (++counts[kind] > kMostAnnotations) continue;
    out.append("::").append(kind).append(" file=");
    out += property_of_command(text::printable(check.path)) +
           ",line=" + std::to_string(line_of(notice)) +
           ",title=plimsoll check::" + data_of_command(message_of(notice));
    if (notice.finding != nullptr) out += data_of_command(all_lines(*notice.finding, "\n"));
    out += "\n";
  }
  for (const auto& [kind, count] : counts) {
    if (count <= kMostAnnotations) continue;
    const std::string more = "more " + std::string(kind);
    out += base::counted(count - kMostAnnotations, more.c_str()) +
           "; see the output of plimsoll check\n";
  }
  return all.empty() ? verdict_text(check) + "\n" : out;
}

}  // namespace plimsoll::budgets
