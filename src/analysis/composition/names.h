// Names of the groups in composition tables.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::composition {

// Size classes are powers of two: class k contains [2^(k-1), 2^k), class 0 empty allocations.
inline constexpr std::size_t kSizeClasses = 65;
std::uint32_t size_class(std::uint64_t size_bytes);
std::string size_class_name(std::uint32_t size_class);  // "1 MiB – 2 MiB"

std::string pool_name(const model::Trace& trace, model::PoolId pool);
std::string frame_name(const model::Trace& trace, model::FrameId frame);  // "file:line function"

// Numbers operators by name, so that an operator named by an event equals one found in a stack.
class OperatorIds {
 public:
  explicit OperatorIds(const model::Trace& trace)
      : trace_(trace), by_stack_(trace.stacks.stack_count(), model::kNone) {}

  // From the event if it names one, else from the stack; "[unknown]" without either.
  std::uint32_t id(model::StringId op, model::StackId stack);
  const std::string& name(std::uint32_t id) const { return names_[id]; }
  std::size_t size() const { return names_.size(); }

 private:
  std::uint32_t intern(std::string name);

  const model::Trace& trace_;
  std::vector<std::uint32_t> by_stack_;
  std::unordered_map<std::uint32_t, std::uint32_t> by_word_;
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<std::string> names_;
};

}  // namespace plimsoll::analysis::composition
