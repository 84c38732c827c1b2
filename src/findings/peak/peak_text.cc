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
std::string_view operator_of(const Allocation& allocation) {
  const model::Site& site = allocation.site();
  const bool is_own = allocation.op().has(evidence::Operator::kOwnNode);
  const bool is_inner = is_own && site.inner_op != model::StringId{};
  return allocation.known->trace.strings[is_inner ? site.inner_op : site.op];
}

std::string kind_of(const Allocation& allocation) {
  const model::StringId shape = allocation.tensor().shape;
  const std::string op(operator_of(allocation));
  return (shape == model::StringId{} ? bytes_text(allocation.size_bytes)
                                     : std::string(allocation.known->trace.strings[shape]) + " " +
                                           std::string(allocation.dtype())) +
         (op.empty() ? "" : " by " + op);
}

}  // namespace

std::string share_text(const Peak& peak, std::uint64_t bytes) {
  return percent_text(bytes, peak.bytes()) + " of the peak on " + peak.device().name;
}

std::string amount_text(const Peak& peak, std::uint64_t bytes) {
  return share_text(peak, bytes) + ": " + bytes_text(bytes) + " of " + bytes_text(peak.bytes());
}

std::string callers_text(const Allocation& allocation) {
  const model::Trace& trace = allocation.known->trace;
  const model::FrameId line = allocation.known->lines.frame(allocation.stack);
  std::string text;
  bool is_outside = false;
  std::size_t named = 0;
  for (const model::FrameId id : trace.stacks.frames(allocation.stack)) {
    const model::Frame& frame = trace.stacks.frame(id);
    const bool is_user = model::origin_of(trace.strings[frame.file]) == model::FrameOrigin::kUser;
    if (is_outside && is_user && named++ < kCallersNamed) {
      text += (text.empty() ? ", called by " : ", ") + std::string(trace.strings[frame.function]);
    }
    is_outside = is_outside || id == line;
  }
  return text;
}

std::pair<std::string, std::uint64_t> line_of_most(const Parts& parts) {
  std::map<std::string, std::uint64_t> lines;
  for (const Allocation& each : parts) lines[each.label()] += each.size_bytes;
  return largest(lines);
}

std::string place_of_most(const Peak& peak, const Parts& parts) {
  const model::InnerLines& inner = peak.facts().inner_lines();
  std::map<std::uint32_t, std::uint64_t> lines;
  for (const Allocation& each : parts) lines[inner.of(each.stack)] += each.size_bytes;
  const model::InnerLine& most = inner.rows()[largest(lines).first];
  const std::string line = line_of_most(parts).first;
  return most.is_in_package ? most.name + ", called at " + line : line;
}

std::string parts_text(const Parts& parts) {
  std::map<std::string, Explanation> kinds;
  for (const Allocation& each : parts) kinds[kind_of(each)].add(each);
  std::vector<std::pair<std::string, std::uint64_t>> bytes;
  for (const auto& [kind, of_kind] : kinds) {
    bytes.emplace_back(counted(of_kind.parts.size(), "tensor") + " of " + kind, of_kind.bytes);
  }
  std::vector<std::string> texts;
  for (const auto& [text, _] : by_value(bytes)) texts.push_back(text);
  return joined(texts);
}

std::string lines_text(const Parts& parts) {
  std::map<std::uint32_t, Explanation> lines;
  for (const Allocation& each : parts) lines[each.line().value].add(each);
  std::map<std::uint32_t, std::uint64_t> bytes;
  for (const auto& [line, of_line] : lines) bytes[line] = of_line.bytes;
  std::vector<std::string> texts;
  for (const auto& [line, _] : by_value(bytes)) {
    const Parts& of_line = lines.at(line).parts;
    texts.push_back(parts_text(of_line) + ", made at " + of_line.front().get().label());
    if (texts.size() == kNamed) break;
  }
  return joined(texts, "; ");
}

std::string path_text(const Parts& parts) {
  std::map<std::uint32_t, std::vector<std::string>> calls;  // by stack
  std::map<std::uint32_t, std::uint64_t> left;              // bytes of the stacks on the path
  for (const Allocation& each : parts) {
    auto [of_stack, is_new] = calls.try_emplace(each.stack.value);
    if (is_new) of_stack->second = calls_of(each.known->trace, each.stack);
    left[each.stack.value] += each.size_bytes;
  }
  std::uint64_t bytes = bytes_of(parts);
  std::vector<std::string> path;
  while (true) {
    std::map<std::string, std::uint64_t> next;
    for (const auto& [stack, of_stack] : left) {
      if (path.size() < calls[stack].size()) next[calls[stack][path.size()]] += of_stack;
    }
    const auto [name, of_name] = largest(next);
    if (of_name * 2 <= bytes) break;
    bytes = of_name;
    std::erase_if(left, [&, &call = name](const auto& each) {
      const auto& names = calls[each.first];
      return path.size() >= names.size() || names[path.size()] != call;
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
