#include "allocation_context.h"

#include "autograd_nodes.h"
#include "plimsoll_libtorch.h"

namespace plimsoll::libtorch {

SavedContext describe_allocation(ThreadState& thread, const char* base) {
  plimsoll_context& context = *thread.context;
  if (const NativeSource* native = native_source()) {
    native->describe(thread, base);
    return thread.save();
  }
  if (context.op_instance != 0) {
    SavedContext saved = thread.save();
    saved.context.stack = describe_running_operator(thread);
    return saved;
  }
  const SavedContext saved = thread.save();
  if (observe_backward(thread)) {
    context.phase = PLIMSOLL_PHASE_BACKWARD;
    if (!g_attachment.has_operators) context.layer = site_of_running_node(thread).layer;
  } else if (!g_attachment.has_operators) {
    context.phase = phase_by_graph(thread, context.phase);
  }
  describe_running_operator(thread);  // no operator runs, but there may be a stack
  return saved;
}

}  // namespace plimsoll::libtorch

extern "C" plimsoll_context* plimsoll_libtorch_describe_allocation(plimsoll_context* before) {
  using namespace plimsoll::libtorch;
  if (!is_attached()) return nullptr;
  ThreadState* const state = thread_state_or_null();
  if (state == nullptr) return nullptr;
  ThreadState& thread = *state;
  *before = describe_allocation(thread, PLIMSOLL_STACK_BASE).context;
  if (before->op_instance != 0 && g_attachment.outputs == Outputs::kNew) {
    thread.new_blocks.add_device_block();
  }
  // Outside an operator, a new stack means that this thread has the GIL, so defining the stack does
  // not wait.
  if (before->op_instance == 0 && thread.context->stack != before->stack) define_new_stacks(thread);
  return thread.context;
}
