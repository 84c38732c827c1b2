#include "readers/oom_message/place.h"

#include <algorithm>
#include <array>
#include <string>

#include "readers/oom_message/search.h"

namespace plimsoll::readers::oom_message {
namespace {

constexpr std::size_t kLongestLead = 1024;  // of a line before a message
constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kQuotationMarks = "#>| \t";

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter(char c) { return is_lower(c) || is_upper(c); }
bool is_in_name(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '.'; }

std::string_view without_end(std::string_view text, std::string_view characters = kBlanks) {
  return text.substr(0, text.find_last_not_of(characters) + 1);
}

std::string_view last_name(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0 && is_in_name(text[begin - 1])) --begin;
  return text.substr(begin);
}

bool is_exception(std::string_view name) {
  return std::ranges::any_of(name, is_upper) &&
         (name.ends_with("Error") || name.ends_with("Exception"));
}

// A word of a sentence: not a level such as ERROR, a number, or the name of a module or a host.
bool is_plain(std::string_view word) {
  return std::ranges::all_of(word, is_letter) && std::ranges::any_of(word, is_lower);
}

bool is_prose(std::string_view label) {
  if (names_failure(label)) return false;
  std::size_t words = 0;
  bool is_sentence = false;
  while (!label.empty()) {
    label.remove_prefix(std::min(label.size(), label.find_first_not_of(kBlanks)));
    const std::string_view word = label.substr(0, label.find_first_of(kBlanks));
    label.remove_prefix(word.size());
    if (word.empty()) break;
    if (!is_plain(word)) return false;
    is_sentence = is_sentence || ++words > 1 || is_upper(word.front());
  }
  return is_sentence;
}

bool is_value(std::string_view before, Figures figures);

// `label` is followed by a colon, an equals sign, or the end of a sentence.
bool is_label(std::string_view label, Figures figures) {
  label = without_end(label);
  const std::string_view name = last_name(label);
  if (is_exception(name)) {
    const std::string_view before = label.substr(0, label.size() - name.size());
    if (before.ends_with('`')) return false;
    if (before.ends_with('"') || before.ends_with('\'')) {
      return is_value(before.substr(0, before.size() - 1), figures);
    }
    return true;
  }
  const std::size_t delimiter = label.find_last_of(":=|[](){},;\"'>");
  return !is_prose(delimiter == label.npos ? label : label.substr(delimiter + 1));
}

// Whether what follows an opening quotation mark is the value of a field, an element of a list, or
// the argument of an exception. Source code has no figures there.
bool is_value(std::string_view before, Figures figures) {
  before = without_end(before);
  if (before.empty()) return true;
  const std::string_view rest = before.substr(0, before.size() - 1);
  const auto ends_value = [](char c) { return is_digit(c) || c == '"' || c == '\'' || c == ']'; };
  switch (before.back()) {
    case '[':
    case '=':
      return true;
    case ':':
      return rest.ends_with('"') || rest.ends_with('\'') || is_label(rest, figures);
    case ',':
      return !rest.empty() && ends_value(rest.back());
    case '(':
      return figures == Figures::kSome && is_exception(last_name(rest));
    default:
      return false;
  }
}

bool is_comment(std::string_view lead) {
  constexpr std::array<std::string_view, 7> kMarks{"#", "//", "/*", "* ", "; ", "<!--", "-- "};
  return std::ranges::any_of(kMarks, [&](std::string_view mark) { return lead.starts_with(mark); });
}

}  // namespace

bool names_failure(std::string_view text) {
  constexpr std::array<std::string_view, 14> kStems{
      "error",  "fail",  "exception", "reason", "status", "state", "message",
      "caught", "raise", "abort",     "crash",  "warn",   "skip",  "retrying"};
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(is_upper(c) ? c | 0x20 : c);
  return std::ranges::any_of(kStems,
                             [&](std::string_view stem) { return lower.find(stem) != lower.npos; });
}

bool is_printed(std::string_view text, std::size_t at, Figures figures) {
  std::string_view lead = text.substr(at - std::min(at, kLongestLead), std::min(at, kLongestLead));
  lead.remove_prefix(lead.rfind('\n') + 1);
  lead.remove_prefix(std::min(lead.size(), lead.find_first_not_of(kBlanks)));
  if (figures == Figures::kNone && is_comment(lead)) return false;
  lead.remove_prefix(std::min(lead.size(), lead.find_first_not_of(kQuotationMarks)));
  const std::string_view gap = lead.substr(without_end(lead).size());
  lead.remove_suffix(gap.size());
  if (lead.empty()) return true;
  const std::string_view rest = lead.substr(0, lead.size() - 1);
  switch (const char last = lead.back()) {
    case '`':
    case '#':
      return false;
    case '/':
      return !rest.ends_with('/');
    case '"':
    case '\'':
      return is_value(rest, figures);
    case ':':
    case '=':
    case '.':
    case ',':
    case ';':
    case '!':
      return is_label(rest, figures);
    default: {
      if (!is_letter(last)) return true;
      const bool is_column = gap.size() > 1 || gap == "\t";
      const std::size_t blank = lead.find_last_of(kBlanks);
      const std::string_view word = lead.substr(blank == lead.npos ? 0 : blank + 1);
      return is_column || !is_plain(word) || names_failure(word);
    }
  }
}

}  // namespace plimsoll::readers::oom_message
