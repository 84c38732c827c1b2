#include "model/inner_lines.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/path_text.h"

namespace plimsoll::model {
namespace {

std::string with_slashes(std::string_view path) {
  std::string text(path);
  std::ranges::replace(text, '\\', '/');
  return text;
}

std::optional<FrameId> inner_frame(const Trace& trace, const UserLines& lines, StackId stack,
                                   const std::vector<FrameOrigin>& origins) {
  if (lines.why(stack) != NoLine::kHasLine) return std::nullopt;
  std::optional<FrameId> best;
  FrameOrigin best_origin = FrameOrigin::kNative;  // never chosen
  for (const FrameId id : trace.stacks.frames(stack)) {
    if (id == lines.frame(stack)) break;
    const FrameOrigin origin = origins[id.index()];
    if (origin < FrameOrigin::kLibrary || origin >= best_origin) continue;
    best = id;
    best_origin = origin;
  }
  return best;
}

}  // namespace

std::string package_line(const Trace& trace, FrameId id) {
  const Frame& frame = trace.stacks.frame(id);
  std::string file(trace.strings[frame.file]);
  std::size_t begin = 0;
  for (const std::string_view packages : {"site-packages/", "dist-packages/"}) {
    const std::size_t at = with_slashes(file).rfind(packages);
    if (at != std::string::npos) begin = at + packages.size();
  }
  if (begin == 0) {  // of the program: two folders
    std::size_t slashes = 0;
    for (std::size_t at = file.size(); at > 1 && slashes < 3; --at) {
      if (base::is_separator(file[at - 1]) && ++slashes == 3) begin = at;
    }
  }
  file.erase(0, begin);
  if (frame.line != kUnknownLine) file += ":" + std::to_string(frame.line);
  return file + " (" + std::string(trace.strings[frame.function]) + ")";
}

InnerLines::InnerLines(const Trace& trace, const UserLines& lines) {
  std::vector<FrameOrigin> origins;
  for (std::uint32_t row = 0; row < trace.stacks.frame_count(); ++row) {
    origins.push_back(origin_of(trace.strings[trace.stacks.frame(FrameId{row}).file]));
  }
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> known;
  of_stack_.reserve(trace.stacks.stack_count());
  for (std::uint32_t row = 0; row < trace.stacks.stack_count(); ++row) {
    const StackId stack{row};
    const auto frame = inner_frame(trace, lines, stack, origins);
    std::string name = frame ? package_line(trace, *frame) : kLineItself;
    const auto next = static_cast<std::uint32_t>(rows_.size());
    const LineId line = lines.line(stack);
    const auto [place, is_new] = known.try_emplace({line.value, name}, next);
    if (is_new) {
      const bool is_in_package = frame && origins[frame->index()] != FrameOrigin::kTorch;
      rows_.push_back({line, std::move(name), is_in_package});
    }
    of_stack_.push_back(place->second);
  }
}

}  // namespace plimsoll::model
