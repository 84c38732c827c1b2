#include "record/output/source_lines.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "base/frame_origin.h"
#include "base/source_file.h"
#include "base/utf8.h"
#include "format/checksum.h"

namespace plimsoll::record {
namespace {

constexpr std::size_t kFramesAtOnce = 4096;  // copied under the lock

// File << 32 | line, sorted.
std::vector<std::uint64_t> lines_of_frames(Definitions& definitions) {
  std::unordered_set<std::uint64_t> lines;
  std::vector<format::Frame> frames(kFramesAtOnce);
  std::size_t first = 0;
  while (const std::size_t count = definitions.copy_all_frames(first, frames)) {
    first += count;
    for (std::size_t i = 0; i < count; ++i) {
      if (frames[i].line != 0) lines.insert(std::uint64_t{frames[i].file} << 32 | frames[i].line);
    }
  }
  std::vector<std::uint64_t> sorted(lines.begin(), lines.end());
  std::ranges::sort(sorted);
  return sorted;
}

// Reports charge no line of another origin, or can read none.
bool has_charged_lines(std::string_view file) {
  const base::FrameOrigin origin = base::origin_of(file);
  return origin == base::FrameOrigin::kUser || origin == base::FrameOrigin::kLibrary;
}

// A formatter that aligns comments changes no text.
std::string folded(std::string_view line) {
  std::string text = base::visible_line(line);
  const auto both_spaces = [](char one, char next) { return one == ' ' && next == ' '; };
  text.erase(std::unique(text.begin(), text.end(), both_spaces), text.end());
  return text;
}

}  // namespace

std::vector<SourceText> read_source_lines(Definitions& definitions, std::int64_t before_ns) {
  std::vector<SourceText> out;
  std::uint32_t file = 0;
  std::optional<std::string> source;
  std::vector<std::string_view> lines;  // of `source`
  for (const std::uint64_t key : lines_of_frames(definitions)) {
    const auto line = static_cast<std::uint32_t>(key);
    if (file != key >> 32) {
      file = static_cast<std::uint32_t>(key >> 32);
      const std::string path(definitions.text(file));
      source = has_charged_lines(path) ? base::read_source(path, before_ns) : std::nullopt;
      lines = source ? base::lines_in(*source) : std::vector<std::string_view>();
    }
    if (line > lines.size()) continue;
    std::string text = folded(lines[line - 1]);
    if (text.empty()) continue;
    const std::uint64_t hash = format::hash_of_source(text);
    text.resize(base::utf8_prefix(text, kMostSourceTextBytes).size());
    out.push_back({file, line, hash, std::move(text)});
  }
  return out;
}

}  // namespace plimsoll::record
