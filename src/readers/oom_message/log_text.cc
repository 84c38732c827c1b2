#include "readers/oom_message/log_text.h"

#include <rapidjson/document.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/terminal_escapes.h"
#include "readers/oom_message/search.h"

namespace plimsoll::readers::oom_message {
namespace {

using Json = rapidjson::Value;

// Longer lines are left as they are: parsing one costs several times its size.
constexpr std::size_t kLongestJsonLine = std::size_t{4} << 20;
constexpr int kDeepestJson = 16;

// Keys whose strings are the program's text: of docker, Python's JSON formatters, structlog,
// loguru, ECS and the loggers of clouds. A traceback comes last, because it ends with the message.
constexpr std::array<std::string_view, 20> kTextKeys{
    "log",      "message",   "msg",       "event", "text",        "body",      "textPayload",
    "error",    "exc_value", "exception", "value", "stack_info",  "stack",     "traceback",
    "exc_info", "exc_text",  "MESSAGE",   "line",  "stack_trace", "stacktrace"};

std::string_view string_of(const Json& value) {
  return {value.GetString(), value.GetStringLength()};
}

const Json* member(const Json& object, const char* name) {
  const auto found = object.FindMember(name);
  return found == object.MemberEnd() ? nullptr : &found->value;
}

// A frame of a structured traceback: {"filename": …, "lineno": …, "name": …}.
std::string frame_text(const Json& object) {
  const Json* const file = member(object, "filename");
  const Json* const line = member(object, "lineno");
  const Json* const name = member(object, "name");
  if (file == nullptr || !file->IsString() || line == nullptr || !line->IsUint()) return {};
  std::string text =
      "  File \"" + std::string(string_of(*file)) + "\", line " + std::to_string(line->GetUint());
  if (name != nullptr && name->IsString()) text += ", in " + std::string(string_of(*name));
  return text + "\n";
}

// The texts of an object, and its frames.
struct Texts {
  std::string frames;
  std::vector<std::pair<std::size_t, std::string_view>> texts;  // with the rank of the key

  void add(const Json& value, std::size_t rank, int depth) {
    if (depth > kDeepestJson) return;
    if (value.IsString()) {
      // A message may be under any key.
      const bool is_text =
          rank < kTextKeys.size() || string_of(value).find("memory") != std::string_view::npos;
      if (is_text) texts.emplace_back(rank, string_of(value));
    }
    if (value.IsArray()) {
      for (const Json& each : value.GetArray()) add(each, rank, depth + 1);
    }
    if (!value.IsObject()) return;
    frames += frame_text(value);
    for (const auto& each : value.GetObject()) {
      const std::string_view key = string_of(each.name);
      const std::string_view last = key.substr(key.rfind('.') + 1);  // "error.stack_trace"
      const auto* const known = std::ranges::find(kTextKeys, last);
      add(each.value, static_cast<std::size_t>(known - kTextKeys.begin()), depth + 1);
    }
  }
};

// Appends what a line of JSON logs; false if it is another line.
bool unpack(std::string_view line, std::string& out) {
  while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
  if (!line.starts_with('{') || !line.ends_with('}') || line.size() > kLongestJsonLine) {
    return false;
  }
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(line.data(), line.size());
  if (document.HasParseError() || !document.IsObject()) return false;
  const Json* const log = member(document, "log");
  if (document.MemberCount() <= 4 && log != nullptr && log->IsString()) {
    out += string_of(*log);  // of docker, which splits long lines: the end of the line is included
    return true;
  }
  Texts found;
  found.add(document, kTextKeys.size(), 0);
  if (found.texts.empty()) return false;
  std::ranges::stable_sort(found.texts, {}, [](const auto& each) { return each.first; });
  if (!found.frames.empty()) out += "Traceback (most recent call last):\n" + found.frames;
  for (const auto& [rank, text] : found.texts) {
    // A formatter repeats the message at the end of the traceback.
    const bool is_repeated = std::ranges::any_of(found.texts, [&, &text = text](const auto& other) {
      return other.second.size() > text.size() && other.second.find(text) != text.npos;
    });
    if (is_repeated) continue;
    out += text;
    out += '\n';
  }
  return true;
}

std::string unpacked(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view line = first_line(text);
    const std::string_view whole = text.substr(0, std::min(text.size(), line.size() + 1));
    if (!unpack(line, out)) out += whole;
    text.remove_prefix(whole.size());
  }
  return out;
}

// Where rich's column "  train.py:12" begins, at the end of a line; npos without it.
std::size_t source_column(std::string_view line) {
  line = line.substr(0, line.find_last_not_of(" \r") + 1);
  std::size_t at = line.size();
  while (at > 0 && is_digit(line[at - 1])) --at;
  if (at == line.size() || at == 0 || line[at - 1] != ':') return line.npos;
  const std::string_view file = line.substr(0, at - 1);
  if (!file.ends_with(".py")) return line.npos;
  const std::size_t space = file.rfind(' ');
  return space != file.npos && space > 0 && file[space - 1] == ' ' ? space : line.npos;
}

// In a message that rich wraps, the column stands between its first two lines.
void remove_source_columns(std::string& text) {
  constexpr std::string_view kFile = ".py:";
  for (std::size_t at = text.find(kFile); at != text.npos; at = text.find(kFile, at + 1)) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at) + 1;
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    constexpr std::size_t kWidest = 1024;  // no terminal is wider
    if (line.size() > kWidest || !std::string_view(text).substr(end).starts_with("\n      ")) {
      continue;
    }
    const std::size_t column = source_column(line);
    if (column == line.npos) continue;
    const auto from = text.begin() + static_cast<std::ptrdiff_t>(begin + column);
    std::fill(from, text.begin() + static_cast<std::ptrdiff_t>(end), ' ');
  }
}

}  // namespace

std::string prepared_log(std::string text) {
  // Twice, for a program under docker that itself logs JSON.
  for (int pass = 0; pass < 2; ++pass) {
    if (text.starts_with('{') || text.find("\n{") != text.npos) text = unpacked(text);
  }
  base::remove_escape_sequences(text);
  remove_source_columns(text);
  return text;
}

bool begins_as_json_log(std::string_view text) {
  const std::string_view line = first_line(text);
  std::string ignored;
  return line.find("\"traceEvents\"") == line.npos && unpack(line, ignored);
}

std::string quotation(std::string_view text, std::size_t at) {
  constexpr std::size_t kLongest = 200;
  constexpr std::size_t kMostBefore = 60;
  std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  const bool is_cut = at - begin > kMostBefore;
  if (is_cut) begin = at;
  std::string_view line = first_line(text.substr(begin, std::size_t{64} << 10));
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t")));
  line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
  std::string quoted = (is_cut ? "\xE2\x80\xA6" : "") + std::string(line.substr(0, kLongest));
  if (line.size() > kLongest) quoted += "\xE2\x80\xA6";
  return quoted;
}

}  // namespace plimsoll::readers::oom_message
