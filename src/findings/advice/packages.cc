#include "findings/advice/packages.h"

#include <algorithm>
#include <array>
#include <map>

#include "findings/text.h"
#include "model/function_name.h"
#include "model/inner_lines.h"
#include "model/user_line.h"

namespace plimsoll::findings {
namespace {

constexpr double kShareOfPackage = 0.5;

}  // namespace

const evidence::CheckpointCall* checkpoint_call(const Peak& peak,
                                                const std::vector<std::uint32_t>& parts) {
  std::map<const evidence::CheckpointCall*, std::uint64_t> calls;
  std::uint64_t whole = 0;
  for (const std::uint32_t part : parts) {
    const PeakAllocation& allocation = peak.live()[part];
    whole += allocation.size_bytes;
    const evidence::CheckpointCall* const call = peak.stacks().checkpoint_call(allocation.stack);
    if (call != nullptr) calls[call] += allocation.size_bytes;
  }
  for (const auto& [call, bytes] : calls) {
    if (bytes > 0 && is_at_least(bytes, kShareOfPackage, whole)) return call;
  }
  return nullptr;
}

std::pair<std::string, std::uint64_t> package_line_of_most(const Peak& peak,
                                                           const std::vector<std::uint32_t>& parts,
                                                           const std::string& line) {
  const model::Trace& trace = peak.trace();
  const model::UserLines& lines = peak.facts().lines;
  std::map<std::uint32_t, std::uint64_t> by_stack;
  for (const std::uint32_t part : parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!peak.has_line(allocation) || !lines.is_in_package(allocation.stack)) continue;
    by_stack[allocation.stack.value] += allocation.size_bytes;
  }
  std::map<std::string, std::uint64_t> inside;
  for (const auto& [stack, bytes] : by_stack) {
    const model::StackId id{stack};
    if (lines.label(id) != line) continue;
    std::optional<model::FrameId> innermost;
    bool is_of_module = false;
    for (const model::FrameId frame : trace.stacks.frames(id)) {
      if (frame == lines.frame(id)) break;
      const model::Frame& row = trace.stacks.frame(frame);
      if (model::origin_of(trace.strings[row.file]) != model::FrameOrigin::kLibrary) continue;
      if (!innermost) innermost = frame;
      is_of_module = is_of_module || model::is_forward(trace.strings[row.function]);
    }
    if (is_of_module) inside[model::package_line(trace, *innermost)] += bytes;
  }
  const auto most =
      std::ranges::max_element(inside, {}, [](const auto& each) { return each.second; });
  if (most == inside.end()) return {};
  return {most->first, most->second};
}

}  // namespace plimsoll::findings
