#include "readers/oom_message/known_texts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/units.h"
#include "readers/oom_message/log_text.h"
#include "readers/oom_message/message.h"
#include "readers/oom_message/place.h"
#include "readers/oom_message/search.h"

namespace plimsoll::readers::oom_message {
namespace {

// Bounds the work at each place where the first literal of a pattern occurs.
constexpr std::size_t kLongestCapture = 300;
constexpr double kMostKnownBytes = 0x1p60;

struct Capture {
  std::string_view name;
  std::string_view text;
  std::optional<std::uint64_t> bytes;
};
using Captures = std::vector<Capture>;

// A capture of a pattern: "{total|GiB}" is {total, GiB}.
struct Slot {
  std::string_view name;
  std::string_view unit;
};

// The literal at the start of a pattern, which is removed.
std::string_view take_literal(std::string_view& pattern) {
  const std::string_view literal = pattern.substr(0, pattern.find('{'));
  pattern.remove_prefix(literal.size());
  return literal;
}

std::optional<Slot> take_slot(std::string_view& pattern) {
  if (!pattern.starts_with('{')) return std::nullopt;
  const std::string_view slot = pattern.substr(1, pattern.find('}') - 1);
  pattern.remove_prefix(slot.size() + 2);
  const std::size_t bar = slot.find('|');
  return Slot{slot.substr(0, bar), slot.substr(bar + 1)};
}

// The next capture of a pattern, which is removed with what precedes it.
std::optional<Slot> take_slot_after(std::string_view& pattern) {
  take_literal(pattern);
  return take_slot(pattern);
}

// Removes blanks, ends of lines, boxes and quotation marks; false if there are none.
bool skip_blanks(std::string_view& text) {
  constexpr std::string_view kBoxBar = "\xE2\x94\x82";
  const std::size_t before = text.size();
  for (bool is_new_line = false; !text.empty();) {
    const char c = text.front();
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      is_new_line = is_new_line || c == '\n';
      text.remove_prefix(1);
    } else if (text.starts_with(kBoxBar)) {
      text.remove_prefix(kBoxBar.size());
    } else if (is_new_line && (c == '#' || c == '>' || c == '|')) {
      text.remove_prefix(1);
    } else {
      break;
    }
  }
  return text.size() < before;
}

bool match_literal(std::string_view literal, std::string_view& text) {
  for (const char c : literal) {
    if (c == ' ') {
      if (!skip_blanks(text)) return false;
    } else {
      if (text.empty() || text.front() != c) return false;
      text.remove_prefix(1);
    }
  }
  return true;
}

std::string_view take_number(std::string_view& text) {
  const std::string_view number = text.substr(0, text.find_first_not_of("0123456789.,"));
  std::string_view value = number;
  while (value.ends_with('.') || value.ends_with(',')) value.remove_suffix(1);
  text.remove_prefix(value.size());
  return value;
}

// "1,600,000,000" and "22.4"
std::optional<double> value_of(std::string_view number) {
  std::string digits(number);
  std::erase(digits, ',');
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value, std::chars_format::fixed);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return value;
}

std::optional<double> bytes_in(std::string_view unit) {
  constexpr std::array<std::string_view, 4> kUnits{"bytes", "KiB", "MiB", "GiB"};
  const auto* const found = std::ranges::find(kUnits, unit);
  if (found == kUnits.end()) return std::nullopt;
  return std::ldexp(1.0, 10 * static_cast<int>(found - kUnits.begin()));
}

// The text up to `literal`, within a line. The rest begins at the literal.
bool match_text(Capture& capture, std::string_view literal, std::string_view& text) {
  const std::size_t most = first_line(text.substr(0, kLongestCapture)).size();
  for (std::size_t end = literal.empty() ? most : 0; end <= most; ++end) {
    std::string_view rest = text.substr(end);
    if (!match_literal(literal, rest)) continue;
    capture.text = text.substr(0, end);
    text.remove_prefix(end);
    return true;
  }
  return false;
}

// "2.00 GiB", whose number has been read.
std::optional<std::uint64_t> match_unit(std::string_view number, std::string_view& text) {
  std::string size(number);
  std::erase(size, ',');
  std::string_view unit = text;
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const std::string_view name = unit.substr(0, unit.find_first_not_of("KMGTPBibytes"));
  const auto bytes = size_at_start(size.append(" ").append(name));
  if (bytes) text = unit.substr(name.size());
  return bytes;
}

bool match_slot(const Slot& slot, std::string_view literal, std::string_view& text,
                Captures& captures) {
  Capture capture{slot.name, {}, {}};
  if (slot.unit == "text") {
    if (!match_text(capture, literal, text)) return false;
  } else {
    if (text.starts_with('(')) text.remove_prefix(1);
    capture.text = take_number(text);
    const auto value = value_of(capture.text);
    if (!value) return false;
    if (slot.unit == "size") {
      capture.bytes = match_unit(capture.text, text);
      if (!capture.bytes) return false;
    } else if (const auto unit = bytes_in(slot.unit)) {
      capture.bytes = static_cast<std::uint64_t>(std::min(*value * *unit, kMostKnownBytes));
    }
  }
  if (!slot.name.empty()) captures.push_back(capture);
  return true;
}

// Matches what follows the first literal.
std::optional<Captures> match(std::string_view pattern, std::string_view text) {
  Captures captures;
  while (const auto slot = take_slot(pattern)) {
    const std::string_view literal = take_literal(pattern);
    if (!match_slot(*slot, literal, text, captures) || !match_literal(literal, text)) {
      return std::nullopt;
    }
  }
  return captures;
}

std::string filled(std::string_view form, const Captures& captures) {
  std::string text;
  while (!form.empty()) {
    text += take_literal(form);
    const auto slot = take_slot(form);
    if (!slot) break;
    const auto found = std::ranges::find(captures, slot->name, &Capture::name);
    if (found == captures.end()) continue;
    text += found->bytes ? base::bytes_text(*found->bytes) : std::string(found->text);
  }
  return text;
}

model::OomMessage message_of(const KnownPattern& known, const Captures& captures) {
  const auto bytes = [&](std::string_view name) {
    const auto found = std::ranges::find(captures, name, &Capture::name);
    return found == captures.end() ? std::nullopt : found->bytes;
  };
  model::OomMessage message;
  message.device = {known.means.device, known.means.device == model::DeviceType::kCpu ? -1 : 0};
  const auto device = std::ranges::find(captures, "device", &Capture::name);
  constexpr double kMostKnownDevices = 4096;
  if (device != captures.end()) {
    const double ordinal = value_of(device->text).value_or(0);
    if (ordinal < kMostKnownDevices) message.device.ordinal = static_cast<std::int32_t>(ordinal);
  }
  message.requested_bytes = bytes("requested").value_or(0);
  message.total_bytes = bytes("total");
  message.free_bytes = bytes("free");
  message.limit_bytes = bytes("limit");
  model::KnownText& text = message.known.emplace();
  text.title = filled(known.means.title, captures);
  text.evidence = filled(known.means.evidence, captures);
  for (const std::string_view step : known.means.steps) {
    if (!step.empty()) text.steps.push_back(filled(step, captures));
  }
  return message;
}

std::size_t next_of(std::string_view text, std::string_view literal, std::size_t from) {
  if (from >= text.size()) return text.npos;
  const void* const found =
      ::memmem(text.data() + from, text.size() - from, literal.data(), literal.size());
  return found == nullptr ? text.npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\"'";
  const std::size_t from = text.find_first_not_of(kBlanks);
  if (from == text.npos) return {};
  return text.substr(from, text.find_last_not_of(kBlanks) - from + 1);
}

// Whether a program states a name as a status, on a line other than a comment: alone, with its
// meaning, behind a label such as "CUDA error: " or "Reason: ", or in a column of a table.
bool is_stated(std::string_view text, std::size_t at, std::size_t size) {
  const std::size_t begin = text.rfind('\n', at) + 1;
  const std::string_view before = text.substr(begin, at - begin);
  const std::string_view after = first_line(text.substr(at + size));
  const std::string_view label = without_blanks(before);
  if (label.empty()) return without_blanks(after).empty() || after.starts_with(": out of memory");
  if (std::string_view("#/*;<-").find(label.front()) != text.npos) return false;
  const auto is_column = [](std::string_view gap) { return gap == "  " || gap.ends_with('\t'); };
  if (before.size() > 1 && is_column(before.substr(before.size() - 2))) {
    if (without_blanks(after).empty() || is_column(after.substr(0, 2))) return true;
  }
  return (label.ends_with(':') || label.ends_with('=')) && names_failure(label);
}

// Patterns that begin in the middle of a sentence begin with a lowercase letter.
bool is_of_program(std::string_view text, std::size_t at, std::string_view literal,
                   std::string_view pattern) {
  if (pattern.empty() && literal.find_first_of(" \"") == text.npos) {
    return is_stated(text, at, literal.size());
  }
  const bool is_start = literal.front() < 'a' || literal.front() > 'z';
  bool has_figures = false;
  while (const auto slot = take_slot_after(pattern)) has_figures |= slot->unit != "text";
  return !is_start || is_printed(text, at, has_figures ? Figures::kSome : Figures::kNone);
}

// The last place where the whole pattern matches.
std::optional<FoundKnown> last_of(const KnownPattern& known, std::string_view text) {
  std::string_view rest = known.pattern;
  const std::string_view literal = take_literal(rest);
  std::optional<std::pair<std::size_t, Captures>> last;
  for (std::size_t at = next_of(text, literal, 0); at != text.npos;
       at = next_of(text, literal, at + literal.size())) {
    auto captures = match(rest, text.substr(at + literal.size()));
    if (captures && is_of_program(text, at, literal, rest)) last.emplace(at, *std::move(captures));
  }
  if (!last) return std::nullopt;
  FoundKnown found{message_of(known, last->second), last->first};
  found.message.known->quotation = quotation(text, last->first);
  return found;
}

}  // namespace

std::vector<FoundKnown> find_known_texts(std::string_view text) {
  std::vector<FoundKnown> all;
  for (const KnownPattern& known : known_patterns()) {
    const bool is_explained = std::ranges::any_of(all, [&](const FoundKnown& found) {
      return found.message.device.type == known.means.device;
    });
    if (is_explained) continue;
    if (auto found = last_of(known, text)) all.push_back(*std::move(found));
  }
  return all;
}

}  // namespace plimsoll::readers::oom_message
