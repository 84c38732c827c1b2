// What an allocation of this thread belongs to: the running operator, as its context says, or,
// outside any operator, what autograd and Python can tell at this moment.
#pragma once

#include "thread_state.h"

namespace plimsoll::libtorch {

// Inside an operator all is known but the stack, which is asked for by its first allocation.
inline void describe_running_operator(ThreadState& thread) {
  plimsoll_context& context = *thread.context;
  if (context.stack == 0 && g_attachment.stacks.capture != nullptr) {
    context.stack = g_attachment.stacks.capture(thread);
  }
}

// Fills in the thread's context; returns what to put back once the allocation has been told.
SavedContext describe_allocation(ThreadState& thread);

}  // namespace plimsoll::libtorch
