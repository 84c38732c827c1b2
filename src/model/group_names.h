// Names of the groups that tables and charts show (groupings.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::model {

inline constexpr const char* kAllocatedBefore = "[allocated before recording]";

// Size classes are powers of two: class k contains [2^(k-1), 2^k), class 0 empty allocations.
inline constexpr std::size_t kSizeClasses = 65;
std::uint32_t size_class(std::uint64_t size_bytes);
std::string size_class_name(std::uint32_t size_class);  // "1 MiB – 2 MiB"

std::string pool_name(const Trace& trace, PoolId pool);
std::string frame_name(const Trace& trace, FrameId frame);  // "file:line function"
// The label of a line. `line` may also be before_recording(lines).
std::string line_name(const UserLines& lines, LineId line);

// Numbers operators by name, so that an operator named by an event has the same id as one found in
// a stack.
class OperatorIds {
 public:
  explicit OperatorIds(const Trace& trace)
      : trace_(trace),
        by_stack_(trace.stacks.stack_count(), kNone),
        by_word_(trace.strings.size(), kNone) {}

  // From the event if it names one, else from the stack; "[unknown]" without either.
  std::uint32_t id(StringId op, StackId stack);
  const std::string& name(std::uint32_t id) const { return names_[id]; }
  std::size_t size() const { return names_.size(); }

 private:
  std::uint32_t intern(std::string name);

  const Trace& trace_;
  std::vector<std::uint32_t> by_stack_;
  std::vector<std::uint32_t> by_word_;
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<std::string> names_;
};

}  // namespace plimsoll::model
