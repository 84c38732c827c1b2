#include "readers/oom_message/traceback.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "readers/oom_message/search.h"

namespace plimsoll::readers::oom_message {
namespace {

constexpr std::size_t kMostFrames = 200;

// `  File "train.py", line 30, in attention`, perhaps after a prefix such as "[rank0]: ".
std::optional<CodeLine> code_line(std::string_view line) {
  const auto path = after(line, "File \"");
  if (!path) return std::nullopt;
  const std::size_t end = path->find('"');
  if (end == path->npos) return std::nullopt;
  const auto number = number_after(path->substr(end), "\", line ");
  if (!number || *number <= 0 || *number > INT32_MAX) return std::nullopt;
  CodeLine found{path->substr(0, end), static_cast<std::uint32_t>(*number), {}};
  if (const auto name = after(path->substr(end), ", in ")) {
    found.function = name->substr(0, name->find('\r'));
  }
  return found;
}

// Whether `line` can follow a frame in a traceback: a line of source, or a blank one. `indent`:
// what the frame's line has before `File "`.
bool is_below_frame(std::string_view line, std::string_view indent) {
  const std::string_view trimmed = line.substr(0, line.find_last_not_of(" \t\r") + 1);
  if (indent.starts_with(trimmed)) return true;
  if (!line.starts_with(indent)) return false;
  return line[indent.size()] == ' ' || line[indent.size()] == '[';  // [Previous line repeated …]
}

// The frames directly above the message that `text` ends at, if the head of their traceback is cut
// off.
std::vector<CodeLine> frames_above(std::string_view text) {
  constexpr std::size_t kMostSourceLines = 40;  // of one frame
  std::vector<CodeLine> frames;
  std::vector<std::string_view> below;  // the lines between a frame and what follows it
  std::string_view indent;
  const std::string_view last = text.substr(text.rfind('\n') + 1);
  for (text.remove_suffix(last.size()); !text.empty();) {
    text.remove_suffix(1);
    const std::string_view line = text.substr(text.rfind('\n') + 1);
    text.remove_suffix(line.size());
    const auto frame = code_line(line);
    if (!frame) {
      below.push_back(line);
      if (below.size() > kMostSourceLines) break;
      continue;
    }
    const std::string_view before = line.substr(0, line.find("File \""));
    if (frames.empty()) {
      indent = before;
      if (!last.starts_with(indent.substr(0, indent.find_last_not_of(" \t") + 1))) break;
    }
    const auto belongs = [&](std::string_view each) { return is_below_frame(each, indent); };
    if (before != indent || !std::ranges::all_of(below, belongs)) break;
    frames.push_back(*frame);
    if (frames.size() == kMostFrames) break;
    below.clear();
  }
  return frames;
}

}  // namespace

std::vector<CodeLine> traceback_of(std::string_view text) {
  const std::size_t start = text.rfind("Traceback (most recent call last)");
  if (start == text.npos) return frames_above(text);
  std::vector<CodeLine> lines;
  for (std::string_view rest = text.substr(start); !rest.empty();) {
    const std::string_view line = first_line(rest);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (auto found = code_line(line)) lines.push_back(*found);
  }
  std::ranges::reverse(lines);
  if (lines.size() > kMostFrames) lines.resize(kMostFrames);
  return lines;
}

}  // namespace plimsoll::readers::oom_message
