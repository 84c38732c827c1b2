#include "top/text.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "text/layout.h"

namespace plimsoll::top {
namespace {

constexpr std::string_view kBound = "\u00A0";  // no-break space

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

using CommandLine = std::vector<std::string>;
using Position = CommandLine::iterator;

// Skips the options of plimsoll run, up to the script or -m.
Position behind_options_of_run(Position at, Position end) {
  constexpr std::array<std::string_view, 5> kWithValue = {"-o", "--output", "--mode",
                                                          "--max-events", "--adapter"};
  while (at != end && at->starts_with("-") && *at != "-m") {
    const bool has_value = std::ranges::find(kWithValue, *at) != kWithValue.end();
    ++at;
    if (has_value && at != end) ++at;
  }
  return at;
}

// Removes the options of Python, except -m and -c. These are separated from the letters before them
// and from the value after them: "-bmpytest" becomes "-m" "pytest". Returns the position of the
// first remaining word after the interpreter.
Position remove_python_options(CommandLine& words) {
  std::size_t at = 1;
  while (at < words.size() && words[at].size() > 1 && words[at][0] == '-') {
    const std::string word = words[at];
    if (word[1] == '-') {
      at += word == "--check-hash-based-pycs" ? 2 : 1;
      continue;
    }
    const std::size_t letter = std::min(word.find_first_of("mcWX", 1), word.size());
    const std::string value = letter < word.size() ? word.substr(letter + 1) : "";
    if (letter < word.size() && (word[letter] == 'm' || word[letter] == 'c')) {
      words[at] = {'-', word[letter]};
      if (!value.empty()) words.insert(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, value);
      break;
    }
    at += letter < word.size() && value.empty() ? 2 : 1;
  }
  if (at >= words.size()) return words.end();  // only options: they are kept
  return words.erase(words.begin() + 1, words.begin() + static_cast<std::ptrdiff_t>(at));
}

// Reduces the command line of a Python program to the script and its arguments, or, with -m or -c,
// to the interpreter, that option and what follows.
void shorten_python(CommandLine& words) {
  if (words.empty() || !file_name(words.front()).starts_with("python")) return;
  Position at = remove_python_options(words);
  const bool is_run =
      words.end() - at >= 3 && *at == "-m" && *(at + 1) == "plimsoll" && *(at + 2) == "run";
  if (is_run) {
    const Position script = behind_options_of_run(at + 3, words.end());
    if (script != words.end()) at = words.erase(at, script);
  }
  if (at != words.end() && !at->starts_with("-")) words.erase(words.begin(), at);
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
  shorten_python(words);
  if (!words.empty()) words.front() = file_name(words.front());
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text::shorten_end(text::printable(text), width);
}

}  // namespace plimsoll::top
