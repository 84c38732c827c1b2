#include "model/group_names.h"

#include <array>
#include <bit>
#include <utility>

#include "model/live_allocations.h"

namespace plimsoll::model {
namespace {

// 2^exponent bytes: "512 B", "1 KiB", "16 EiB".
std::string power_of_two(std::uint32_t exponent) {
  constexpr std::array kUnits = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  return std::to_string(1u << (exponent % 10)) + kUnits[exponent / 10];
}

}  // namespace

std::uint32_t size_class(std::uint64_t size_bytes) {
  return static_cast<std::uint32_t>(std::bit_width(size_bytes));
}

std::string size_class_name(std::uint32_t size_class) {
  if (size_class == 0) return "0 B";
  return power_of_two(size_class - 1) + " \u2013 " + power_of_two(size_class);
}

std::string pool_name(const Trace& trace, PoolId pool) {
  if (pool == PoolId{}) return "[pool not recorded]";
  const Pool& ids = trace.pools[pool.index()];
  if (ids == Pool{}) return "default pool";
  return "pool (" + std::to_string(ids.first) + ", " + std::to_string(ids.second) + ")";
}

std::string frame_name(const Trace& trace, FrameId frame) {
  const Frame& row = trace.stacks.frame(frame);
  std::string name(trace.strings[row.file]);
  if (!name.empty()) {
    if (row.line != kUnknownLine) name += ":" + std::to_string(row.line);
    name += " ";
  }
  name += trace.strings[row.function];
  return name;
}

std::string line_name(const UserLines& lines, LineId line) {
  return line == before_recording(lines) ? kAllocatedBefore : lines.label(line);
}

std::uint32_t OperatorIds::intern(std::string name) {
  const auto next = static_cast<std::uint32_t>(names_.size());
  const auto [place, is_new] = ids_.try_emplace(name, next);
  if (is_new) names_.push_back(std::move(name));
  return place->second;
}

std::uint32_t OperatorIds::id(StringId op, StackId stack) {
  if (op != StringId{}) {
    std::uint32_t& known = by_word_[op.index()];
    if (known == kNone) known = intern(std::string(trace_.strings[op]));
    return known;
  }
  std::uint32_t& known = by_stack_[stack.index()];
  if (known == kNone) {
    std::string name = operator_of(trace_, stack);
    known = intern(name.empty() ? "[unknown]" : std::move(name));
  }
  return known;
}

}  // namespace plimsoll::model
