#include "top/text.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "base/utf8.h"
#include "text/layout.h"

namespace plimsoll::top {
namespace {

constexpr std::string_view kBound = "\u00A0";  // a space that no line is broken at

std::vector<std::string> words_of(const std::string& command) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < command.size();) {
    const std::size_t end = std::min(command.find(' ', at), command.size());
    if (end > at) words.push_back(command.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Behind the options from `at` on; those that take a value take the next word, too.
std::size_t behind_options(const std::vector<std::string>& words, std::size_t at,
                           std::initializer_list<std::string_view> with_value) {
  while (at < words.size() && words[at].starts_with("-") && words[at] != "-m" &&
         words[at] != "-c") {
    at += std::ranges::find(with_value, words[at]) == with_value.end() ? 1 : 2;
  }
  return at;
}

// Where the script, or -m and its module, stands behind the interpreter; 0: this is no Python.
std::size_t script_of(const std::vector<std::string>& words) {
  if (words.empty() || !file_name(words.front()).starts_with("python")) return 0;
  const std::size_t at = behind_options(words, 1, {"-X", "-W", "--check-hash-based-pycs"});
  const bool is_run = at + 2 < words.size() && words[at] == "-m" && words[at + 1] == "plimsoll" &&
                      words[at + 2] == "run";
  const std::size_t script =
      is_run
          ? behind_options(words, at + 3, {"-o", "--output", "--mode", "--max-events", "--adapter"})
          : at;
  return script < words.size() ? script : 0;
}

bool is_number(std::string_view word) {
  return !word.empty() && word.back() >= '0' && word.back() <= '9';
}

bool is_unit(std::string_view word) {
  constexpr std::array<std::string_view, 8> kUnits = {"B",   "KiB", "MiB", "GiB",
                                                      "TiB", "PiB", "s",   "ms"};
  const std::size_t end = std::min(word.find_first_of(",:;.)"), word.size());
  return std::ranges::find(kUnits, word.substr(0, end)) != kUnits.end();
}

}  // namespace

std::string cut_columns(std::string_view line, std::size_t width) {
  std::string cut;
  std::size_t columns = 0;
  bool is_colored = false;
  while (!line.empty()) {
    if (line.starts_with("\x1b[")) {
      const std::size_t end = std::min(line.find('m') + 1, line.size());
      if (end == 0) break;
      is_colored = line.substr(0, end) != "\x1b[0m";
      cut += line.substr(0, end);
      line.remove_prefix(end);
      continue;
    }
    const std::size_t size = std::max<std::size_t>(base::utf8_sequence_length(line), 1);
    const std::string_view letter = line.substr(0, size);
    columns += text::display_width(letter);
    if (columns > width) break;
    cut += letter;
    line.remove_prefix(size);
  }
  if (is_colored) cut += "\x1b[0m";
  return cut;
}

std::vector<std::string> wrapped_lines(std::string_view text, std::size_t indent,
                                       std::size_t width) {
  std::string bound;
  std::string before;
  for (const std::string& word : words_of(std::string(text))) {
    if (!bound.empty()) bound += is_number(before) && is_unit(word) ? kBound : " ";
    bound += word;
    before = word;
  }
  const std::string wrapped = text::wrap(bound, indent, width);
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at < wrapped.size();) {
    if (std::string_view(wrapped).substr(at).starts_with(kBound)) {
      lines.back() += ' ';
      at += kBound.size();
      continue;
    }
    if (wrapped[at] == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += wrapped[at];
    }
    ++at;
  }
  return lines;
}

std::string short_command(const std::string& command, std::size_t width) {
  std::vector<std::string> words = words_of(command);
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(script_of(words)));
  if (!words.empty()) words.front() = file_name(words.front());
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text::shorten_end(text::printable(text), width);
}

}  // namespace plimsoll::top
