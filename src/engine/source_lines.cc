#include "engine/source_lines.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "base/source_file.h"

namespace plimsoll::engine {
namespace {

// The program had loaded its source by this time: the recording's start, else its first event.
std::int64_t begin_of(const model::Trace& trace) {
  std::int64_t begin = trace.started_ns;
  if (begin != model::kNoTime) return begin;
  for (const model::DeviceTrace& device : trace.devices) {
    if (device.events.size() == 0) continue;
    const std::int64_t first = device.events.time_ns[0];
    if (first == model::kNoTime) continue;
    begin = begin == model::kNoTime ? first : std::min(begin, first);
  }
  return begin;
}

bool begins_with_name(std::string_view text, std::string_view name) {
  if (!text.starts_with(name)) return false;
  const std::string_view rest = text.substr(name.size());
  return rest.empty() || (rest[0] != '_' && std::isalnum(static_cast<unsigned char>(rest[0])) == 0);
}

// "def forward(" or "class Net:", indented or not.
bool defines(std::string_view line, std::string_view name) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  for (const std::string_view word : {"async def ", "def ", "class "}) {
    if (line.starts_with(word)) return begins_with_name(line.substr(word.size()), name);
  }
  return false;
}

}  // namespace

void SourceLines::find_places() {
  if (std::exchange(has_places_, true)) return;
  std::vector<bool> is_done(lines_.line_count());
  for (std::uint32_t row = 0; row < trace_.stacks.stack_count(); ++row) {
    const model::StackId stack{row};
    const std::size_t line = lines_.line(stack).index();
    if (lines_.why(stack) != model::NoLine::kHasLine || is_done[line]) continue;
    is_done[line] = true;
    const model::Frame& frame = trace_.stacks.frame(lines_.frame(stack));
    if (frame.line == model::kUnknownLine || frame.line == 0) continue;
    const auto [place, is_new] = places_.try_emplace(
        lines_.label(stack), Place{std::string(trace_.strings[frame.file]),
                                   std::string(trace_.strings[frame.function]), frame.line});
    if (!is_new && place->second.file != trace_.strings[frame.file]) {
      place->second.is_ambiguous = true;
    }
  }
}

const SourceLines::FileLines& SourceLines::lines_of(const std::string& file) {
  const auto [found, is_new] = files_.try_emplace(file);
  const std::int64_t begin_ns = begin_of(trace_);
  if (!is_new || begin_ns == model::kNoTime) return found->second;
  const std::optional<std::string> text = base::read_source(file, begin_ns);
  if (!text) return found->second;
  for (const std::string_view line : base::lines_in(*text)) found->second.emplace_back(line);
  return found->second;
}

std::string SourceLines::text_of(const std::string& label) {
  find_places();
  const auto found = places_.find(label);
  if (found == places_.end() || found->second.is_ambiguous) return {};
  const Place& place = found->second;
  const FileLines& lines = lines_of(place.file);
  if (place.line > lines.size()) return {};
  const std::string name = place.function.substr(place.function.rfind('.') + 1);
  const auto end = lines.begin() + place.line;
  const bool is_named = !name.empty() && !name.starts_with('<');
  if (is_named && std::none_of(lines.begin(), end,
                               [&](const std::string& line) { return defines(line, name); })) {
    return {};
  }
  return base::visible_line(lines[place.line - 1]);
}

}  // namespace plimsoll::engine
