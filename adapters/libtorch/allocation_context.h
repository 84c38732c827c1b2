// The context of an allocation on this thread: that of the running operator or, outside any
// operator, what autograd and Python report now.
#pragma once

#include "thread_state.h"

namespace plimsoll::libtorch {

// Inside an operator everything but the stack is known. The stack is read at the operator's first
// allocation, and at each one while an autograd node runs Python. Returns the stack to restore
// after the allocation.
inline std::uint32_t describe_running_operator(ThreadState& thread) {
  plimsoll_context& context = *thread.context;
  const bool may_build = context.autograd == PLIMSOLL_AUTOGRAD_ON && thread.outer_sequence >= 0;
  if (may_build &&
      at::sequence_number::peek() > static_cast<std::uint64_t>(thread.outer_sequence)) {
    context.autograd = PLIMSOLL_AUTOGRAD_BUILT;
  }
  const StackSource& stacks = stack_source();
  if (thread.runs_python_in_node() && stacks.capture_in_node != nullptr) {
    const std::uint32_t of_forward = context.stack;
    context.stack = stacks.capture_in_node(thread);
    return of_forward;
  }
  if (context.stack == 0 && stacks.capture != nullptr) context.stack = stacks.capture(thread);
  return context.stack;
}

// Fills in the thread's context. `base`: PLIMSOLL_STACK_BASE of the hook. Returns what to restore
// after the allocation has been reported.
SavedContext describe_allocation(ThreadState& thread, const char* base);

}  // namespace plimsoll::libtorch
