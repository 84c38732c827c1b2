// What an allocation of this thread belongs to: the running operator, as its context says, or,
// outside any operator, what autograd and Python can tell at this moment.
#pragma once

#include "thread_state.h"

namespace plimsoll::libtorch {

// Inside an operator all is known but the stack, which is asked for by its first allocation, and by
// each while a node runs Python. Returns the stack to put back after the allocation.
inline std::uint32_t describe_running_operator(ThreadState& thread) {
  plimsoll_context& context = *thread.context;
  const StackSource& stacks = g_attachment.stacks;
  if (thread.runs_python_in_node() && stacks.capture_in_node != nullptr) {
    const std::uint32_t of_forward = context.stack;
    context.stack = stacks.capture_in_node(thread);
    return of_forward;
  }
  if (context.stack == 0 && stacks.capture != nullptr) context.stack = stacks.capture(thread);
  return context.stack;
}

// Fills in the thread's context; returns what to put back once the allocation has been told.
SavedContext describe_allocation(ThreadState& thread);

}  // namespace plimsoll::libtorch
