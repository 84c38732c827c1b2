// Texts for the rules about the composition of the peak.
#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/path_text.h"
#include "base/units.h"
#include "findings/peak/peak.h"
#include "findings/text.h"
#include "model/user_line.h"

namespace plimsoll::findings {
namespace {

constexpr std::size_t kCallersNamed = 4;

// The lines of the user's code in a stack, outermost first: "model.py:12 (forward)".
std::vector<std::string> calls_of(const model::Trace& trace, model::StackId stack) {
  std::vector<std::string> calls;
  for (const model::FrameId id : trace.stacks.frames(stack)) {
    const model::Frame& frame = trace.stacks.frame(id);
    const std::string_view file = trace.strings[frame.file];
    const std::string_view function = trace.strings[frame.function];
    if (model::origin_of(file) != model::FrameOrigin::kUser || function == "<module>") continue;
    calls.push_back(std::string(base::file_name(file)) + ":" + std::to_string(frame.line) + " (" +
                    std::string(function) + ")");
  }
  std::ranges::reverse(calls);
  return calls;
}

// The operator that allocated it: the outermost one or, in a hook or an autograd.Function of the
// program, the operator called inside.
std::string_view operator_of(const Peak& peak, const PeakAllocation& allocation) {
  if (allocation.born == model::kNone) return {};
  const model::Site& site = peak.site(allocation);
  const std::string_view outer = peak.trace().strings[site.op];
  const std::string_view inner = peak.trace().strings[site.inner_op];
  const bool is_own = peak.op(allocation).has(evidence::Operator::kOwnNode);
  return is_own && !inner.empty() ? inner : outer;
}

}  // namespace

std::string share_text(const Peak& peak, std::uint64_t bytes) {
  return base::format_percent(static_cast<double>(bytes) / static_cast<double>(peak.bytes())) +
         " of the peak on " + peak.device().name;
}

std::string callers_text(const Peak& peak, const PeakAllocation& allocation) {
  const model::Trace& trace = peak.trace();
  const model::StackId stack = allocation.stack;
  const model::FrameId line = peak.facts().lines.frame(stack);
  std::string text;
  bool is_outside = false;
  std::size_t named = 0;
  for (const model::FrameId id : trace.stacks.frames(stack)) {
    if (id == line) {
      is_outside = true;
      continue;
    }
    const std::string_view file = trace.strings[trace.stacks.frame(id).file];
    if (!is_outside || model::origin_of(file) != model::FrameOrigin::kUser) continue;
    text += (named == 0 ? ", called by " : ", ") +
            std::string(trace.strings[trace.stacks.frame(id).function]);
    if (++named == kCallersNamed) break;
  }
  return text;
}

std::pair<std::string, std::uint64_t> line_of_most(const Peak& peak,
                                                   const std::vector<std::uint32_t>& parts) {
  std::map<std::string, std::uint64_t> lines;
  for (const std::uint32_t part : parts) {
    lines[peak.line_label(peak.live()[part])] += peak.live()[part].size_bytes;
  }
  const auto most =
      std::ranges::max_element(lines, {}, [](const auto& line) { return line.second; });
  if (most == lines.end()) return {};
  return {most->first, most->second};
}

std::string parts_text(const Peak& peak, const std::vector<std::uint32_t>& parts) {
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> kinds;  // count, bytes
  const auto& strings = peak.trace().strings;
  for (const std::uint32_t part : parts) {
    const PeakAllocation& allocation = peak.live()[part];
    const model::Tensor& tensor = peak.tensor(allocation);
    std::string kind;
    if (tensor.shape != model::StringId{}) {
      kind = std::string(strings[tensor.shape]) + " " + std::string(strings[tensor.dtype]);
    } else {
      kind = bytes_text(allocation.size_bytes);
    }
    const std::string_view op = operator_of(peak, allocation);
    if (!op.empty()) kind += " by " + std::string(op);
    auto& [count, bytes] = kinds[kind];
    ++count;
    bytes += allocation.size_bytes;
  }
  std::vector<std::pair<std::uint64_t, std::string>> rows;
  for (const auto& [kind, sums] : kinds) {
    rows.emplace_back(sums.second, counted(sums.first, "tensor") + " of " + kind);
  }
  std::ranges::stable_sort(rows, std::ranges::greater{},
                           &std::pair<std::uint64_t, std::string>::first);
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, rows.size()); ++i) {
    text += (i == 0 ? "" : ", ") + rows[i].second;
  }
  return text;
}

std::string lines_text(const Peak& peak, const std::vector<std::uint32_t>& parts) {
  std::map<std::uint32_t, Explanation> lines;
  for (const std::uint32_t part : parts) {
    lines[peak.line(peak.live()[part]).value].add(peak, part);
  }
  std::vector<const Explanation*> by_bytes;
  for (const auto& [line, of_line] : lines) by_bytes.push_back(&of_line);
  std::ranges::stable_sort(by_bytes, std::ranges::greater{}, &Explanation::bytes);
  std::string text;
  for (const Explanation* each : std::span(by_bytes).first(std::min(kNamed, by_bytes.size()))) {
    text += (text.empty() ? "" : "; ") + parts_text(peak, each->parts) + ", made at " +
            peak.line_label(peak.live()[each->parts.front()]);
  }
  return text;
}

std::string path_text(const Peak& peak, const std::vector<std::uint32_t>& parts) {
  std::map<std::uint32_t, std::vector<std::string>> calls;  // by stack
  std::map<std::uint32_t, std::uint64_t> left;              // bytes of the stacks on the path
  std::uint64_t bytes = 0;
  for (const std::uint32_t part : parts) {
    const PeakAllocation& allocation = peak.live()[part];
    const std::uint32_t stack = allocation.stack.value;
    if (!calls.contains(stack)) {
      calls[stack] = calls_of(peak.trace(), allocation.stack);
    }
    left[stack] += allocation.size_bytes;
    bytes += allocation.size_bytes;
  }
  std::vector<std::string> path;
  while (true) {
    std::map<std::string_view, std::uint64_t> next;
    for (const auto& [stack, of_stack] : left) {
      const auto& names = calls[stack];
      if (path.size() < names.size()) next[names[path.size()]] += of_stack;
    }
    const auto most =
        std::ranges::max_element(next, {}, [](const auto& each) { return each.second; });
    if (most == next.end() || most->second * 2 <= bytes) break;
    const std::string name(most->first);
    bytes = most->second;
    std::erase_if(left, [&](const auto& each) {
      const auto& names = calls[each.first];
      return path.size() >= names.size() || names[path.size()] != name;
    });
    path.push_back(name);
  }
  if (path.empty()) return {};
  // A long path shows its outermost call and the innermost ones.
  const std::size_t innermost = path.size() - std::min(path.size() - 1, kNamed);
  std::string text = path.front() + (innermost > 1 ? " \u2192 \u2026" : "");
  for (std::size_t i = innermost; i < path.size(); ++i) text += " \u2192 " + path[i];
  return text;
}

}  // namespace plimsoll::findings
