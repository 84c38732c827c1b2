#include "cli/name_file.h"

#include <algorithm>
#include <cstddef>

namespace plimsoll::cli {
namespace {

constexpr std::string_view kNameFileMagic = "# plimsoll names 1: keep this file private\n";

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string escaped_name(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') out += "\\\\";
    if (c == '\n') out += "\\n";
    if (c == '\t') out += "\\t";
    if (c != '\\' && c != '\n' && c != '\t') out += c;
  }
  return out;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 1 < text.size();
    const char c = is_escape ? text[++i] : text[i];
    out += !is_escape ? c : c == 'n' ? '\n' : c == 't' ? '\t' : c;
  }
  return out;
}

}  // namespace

std::string names_text(const NameMap& names) {
  std::string text(kNameFileMagic);
  for (const auto& [name, of] : names) text += name + "\t" + escaped_name(of) + "\n";
  return text;
}

Result<NameMap> read_names(std::string_view text, const std::string& path) {
  if (!text.starts_with(kNameFileMagic)) {
    return make_error(ErrorCode::kCorrupt,
                      path + " is not a file of names that plimsoll export --redact wrote");
  }
  text.remove_prefix(kNameFileMagic.size());
  NameMap names;
  for (std::size_t line = 2; !text.empty(); ++line) {
    const std::string_view row = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(row.size() + 1, text.size()));
    const std::size_t tab = row.find('\t');
    if (tab == std::string_view::npos) {
      return make_error(ErrorCode::kCorrupt,
                        path + ": line " + std::to_string(line) + " has no pseudonym");
    }
    names[std::string(row.substr(0, tab))] = unescaped(row.substr(tab + 1));
  }
  return names;
}

std::string decoded(std::string_view text, const NameMap& names) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::ranges::find_if(
        text, [first = is_word(text.front())](char c) { return is_word(c) != first; });
    const std::string word(text.substr(0, static_cast<std::size_t>(end - text.begin())));
    const auto found = names.find(word);
    out += found == names.end() ? word : found->second;
    text.remove_prefix(word.size());
  }
  return out;
}

}  // namespace plimsoll::cli
