#include "operators.h"

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd_nodes.h"
#include "gathered_parameters.h"
#include "parameter_layers.h"
#include "tensors.h"
#include "thread_state.h"
#include "uses.h"

namespace plimsoll::libtorch {
namespace {

using Observed = std::unique_ptr<at::ObserverContext>;  // unused: the state is in ThreadState

// ---- operators --------------------------------------------------------------------------------

// Whether nodes were built outside the observed operators, and hide autograd from what runs now.
// `sequence`: the number that torch passes to an operator that may build a node, its next one.
bool has_unseen_nodes(ThreadState& thread, std::int64_t sequence) {
  const std::uint64_t next =
      sequence >= 0 ? static_cast<std::uint64_t>(sequence) : at::sequence_number::peek();
  const bool is_known =
      thread.graph_attachment == g_attachment.number.load(std::memory_order_relaxed);
  if (is_known && next == thread.graph_sequence) return thread.has_unseen_nodes;
  pass_graph(thread);
  return thread.has_unseen_nodes = is_known;
}

std::uint8_t autograd_of(ThreadState& thread, std::int64_t sequence) {
  if (thread.function_depth != kNoOperator) return thread.function_autograd;
  if (has_unseen_nodes(thread, sequence)) return PLIMSOLL_AUTOGRAD_UNKNOWN;
  const bool is_on = sequence >= 0 || c10::GradMode::is_enabled();
  return is_on ? PLIMSOLL_AUTOGRAD_ON : PLIMSOLL_AUTOGRAD_OFF;
}

void begin_outermost(ThreadState& thread, const Name& name, std::int64_t sequence) {
  plimsoll_context& context = *thread.context;
  context.outer_op = name.id;
  context.op_instance = thread.next_instance();
  thread.outermost_depth = thread.depth;
  thread.outer_sequence = sequence;
  thread.phase_outside = context.phase;
  context.autograd = autograd_of(thread, sequence);
  // A backward that began before we attached: its nodes are not observed yet.
  if (context.phase != PLIMSOLL_PHASE_BACKWARD && observe_backward(thread)) {
    context.phase = PLIMSOLL_PHASE_BACKWARD;
  }
}

// Gives this operator's stack to the autograd nodes that it built.
void give_stack_to_nodes(ThreadState& thread, std::uint64_t begin, std::uint64_t end) {
  plimsoll_context& context = *thread.context;
  const auto capture = stack_source().capture;
  if (capture == nullptr) return;
  if (context.stack == 0) context.stack = capture(thread);
  if (end - begin > LinkTable::kCapacity) begin = end - LinkTable::kCapacity;
  for (std::uint64_t sequence = begin; sequence < end; ++sequence) {
    thread.links->set_stack(sequence, context.stack);
  }
}

void end_outermost(ThreadState& thread) {
  plimsoll_context& context = *thread.context;
  if (observes_uses()) recorder().end_uses(&context);
  if (thread.outer_sequence >= 0) {
    const auto begin = static_cast<std::uint64_t>(thread.outer_sequence);
    const std::uint64_t end = at::sequence_number::peek();
    if (end > begin) {
      thread.has_unseen_nodes = false;
      give_stack_to_nodes(thread, begin, end);
      // The operator built part of a graph outside any module: usually a loss.
      if (context.phase == PLIMSOLL_PHASE_OTHER && thread.module_depth == 0) {
        recorder().set_phase(&context, PLIMSOLL_PHASE_FORWARD);
      }
    }
  }
  if (thread.outer_sequence >= 0) pass_graph(thread);
  context.phase = thread.phase_outside;
  thread.new_blocks.clear();
  thread.leave_operator();
  define_new_stacks(thread);
}

// An autograd.Function builds its node, then turns autograd off for the operators of its forward,
// whose results the node may save. Under no_grad it builds one too, but does not use it.
void begin_function(ThreadState& thread) {
  if (thread.function_depth != kNoOperator) return;
  thread.function_depth = thread.depth;
  const bool is_off = !has_unseen_nodes(thread, -1) && !c10::GradMode::is_enabled();
  thread.function_autograd = is_off ? PLIMSOLL_AUTOGRAD_OFF : PLIMSOLL_AUTOGRAD_UNKNOWN;
}

void end_function(ThreadState& thread) {
  thread.function_depth = kNoOperator;
  pass_unseen_nodes(thread);
}

// ---- autograd nodes ---------------------------------------------------------------------------

// The engine's frame around a node is also an operator. Its own work outside the node (sums over
// broadcast dimensions, accumulated gradients) belongs to the node. Returns false if there is no
// memory; the frame then counts as an operator.
bool node_began(ThreadState& thread, const Name& name) {
  observe_backward(thread);
  try {
    thread.nodes.push_back({thread.save(), thread.depth, thread.python_position()});
  } catch (const std::exception&) {
    count_lost_detail();
    return false;
  }
  plimsoll_context& context = *thread.context;
  const ForwardSite site = site_of_running_node(thread);
  context = {};
  context.layer = site.layer;
  context.forward_op = site.op;
  context.stack = site.stack;
  context.outer_op = context.inner_op = name.id;
  context.op_instance = thread.next_instance();
  context.phase = thread.phase_outside = PLIMSOLL_PHASE_BACKWARD;
  thread.outermost_depth = thread.depth++;
  thread.outer_sequence = -1;
  const auto* listener = site.layer != 0 ? range_listener() : nullptr;
  if (listener != nullptr) listener->begin(PLIMSOLL_RANGE_LAYER, site.layer);
  return true;
}

void node_ended(ThreadState& thread) {
  if (is_attached()) {
    tag_accumulated_gradient(thread);
    gathered_parameters().tag_new_memory(thread);
    if (observes_uses()) recorder().end_uses(thread.context);
  }
  if (const auto* listener = range_listener()) {
    listener->end(PLIMSOLL_RANGE_LAYER, thread.context->layer);
  }
  thread.new_blocks.clear();
  thread.restore(thread.nodes.back().saved);
  thread.nodes.pop_back();
  define_new_stacks(thread);
}

// ---- layers by parameters ---------------------------------------------------------------------

std::atomic<bool> g_has_inputs{false};

// Enters the layer that owns the operator's parameters, unless the thread is already in a layer.
void enter_parameter_layer(ThreadState& thread, const at::RecordFunction& record) {
  plimsoll_context& context = *thread.context;
  const bool is_forward =
      context.phase == PLIMSOLL_PHASE_OTHER || context.phase == PLIMSOLL_PHASE_FORWARD;
  if (context.layer != 0 || !is_forward || !thread.nodes.empty()) return;
  if (torch::autograd::get_current_graph_task_id() >= 0) return;
  try {
    context.layer = parameter_layers().layer_of(record);
  } catch (const std::exception&) {
    count_lost_detail();
  }
  if (context.layer == 0) return;
  thread.layer_depth = thread.depth;
  if (const auto* listener = range_listener()) {
    listener->begin(PLIMSOLL_RANGE_LAYER, context.layer);
  }
}

void leave_parameter_layer(ThreadState& thread) {
  if (const auto* listener = range_listener()) {
    listener->end(PLIMSOLL_RANGE_LAYER, thread.context->layer);
  }
  thread.context->layer = 0;
  thread.layer_depth = kNoOperator;
}

// ---- both, as callbacks of torch --------------------------------------------------------------

// torch calls the end even if the beginning has thrown, so both keep the nesting balanced even
// without memory. Only a thread without state is skipped, until it has one.
Observed operator_began(const at::RecordFunction& record) {
  ThreadState* const state = thread_state_or_null();
  if (state == nullptr) return nullptr;
  ThreadState& thread = *state;
  thread.leave_described();
  plimsoll_context& context = *thread.context;
  Name& name = thread.names.find(record.name());
  if (name.is_node && node_began(thread, name)) return nullptr;
  // Inside an operator, a text without a namespace is a part of it, with arguments that it has
  // read.
  if (observes_uses() && (!name.is_python || context.op_instance == 0)) {
    report_uses(thread, record, name);
  }
  const std::int64_t sequence = record.seqNr();
  if (g_has_inputs.load(std::memory_order_relaxed)) enter_parameter_layer(thread, record);
  if (thread.depth < ThreadState::kInnerLevels) {
    thread.inner_before[thread.depth] = context.inner_op;
  }
  if (sequence >= 0) {
    thread.links->store(static_cast<std::uint64_t>(sequence),
                        {.layer = context.layer, .op = name.id, .stack = context.stack});
  }
  // An autograd.Function runs Python, whose operators count as outermost operators.
  if (context.op_instance == 0) {
    name.is_python ? begin_function(thread) : begin_outermost(thread, name, sequence);
  }
  if (thread.layer_depth == thread.depth && context.phase == PLIMSOLL_PHASE_OTHER) {
    context.phase = PLIMSOLL_PHASE_FORWARD;  // until the outermost operator ends
  }
  context.inner_op = name.id;
  ++thread.depth;
  return nullptr;
}

void describe_outputs(ThreadState& thread, const at::RecordFunction& record) try {
  const Outputs wanted = g_attachment.outputs;
  if (wanted == Outputs::kIgnored || (wanted == Outputs::kNew && thread.new_blocks.empty())) return;
  const auto tag = wanted == Outputs::kNew ? tag_new_output : tag_output;
  for (const c10::IValue& output : record.outputs()) {
    if (output.isTensor()) {
      tag(thread, output.toTensor());
    } else if (output.isTensorList()) {
      for (const at::Tensor& tensor : output.toTensorVector()) tag(thread, tensor);
    }
  }
} catch (const std::exception&) {
  count_lost_detail();
}

void operator_ended(const at::RecordFunction& record, at::ObserverContext* /*unused*/) {
  ThreadState* const state = t_state;
  if (state == nullptr || state->depth == 0) return;
  ThreadState& thread = *state;
  if (is_attached()) describe_outputs(thread, record);
  --thread.depth;
  const bool is_outermost = thread.depth == thread.outermost_depth;
  if (is_outermost) {
    const bool is_node = !thread.nodes.empty() && thread.nodes.back().depth == thread.depth;
    is_node ? node_ended(thread) : end_outermost(thread);
  }
  if (thread.depth == thread.function_depth) end_function(thread);
  // The layer is restored only after the outermost operator has ended: only then are both ends of
  // the range a call of the layer (record/range_listeners.cc).
  if (thread.depth == thread.layer_depth) leave_parameter_layer(thread);
  if (is_outermost) return;
  // The operator was called by a hook, whose frames may end before the node does.
  if (thread.has_new_stacks && thread.runs_python_in_node() &&
      thread.depth == thread.nodes.back().depth + 1) {
    define_new_stacks(thread);
  }
  plimsoll_context& context = *thread.context;
  if (context.op_instance == 0 && observes_uses()) recorder().end_uses(&context);
  if (context.op_instance == 0 && record.seqNr() >= 0) {  // an autograd.Function
    const auto sequence = static_cast<std::uint64_t>(record.seqNr());
    give_stack_to_nodes(thread, sequence, sequence + 1);
    context.stack = 0;
    define_new_stacks(thread);
  }
  if (thread.depth < ThreadState::kInnerLevels) {
    context.inner_op = thread.inner_before[thread.depth];
  }
}

// ---- user scopes ------------------------------------------------------------------------------

// Returns the phase that a scope of this name means, or PLIMSOLL_PHASE_OTHER for none.
std::uint8_t phase_of(std::string_view name) {
  if (name.starts_with("Optimizer.step#") || name.starts_with("Optimizer.zero_grad#")) {
    return PLIMSOLL_PHASE_OPTIMIZER;
  }
  return name.starts_with("enumerate(DataLoader)") ? PLIMSOLL_PHASE_DATA : PLIMSOLL_PHASE_OTHER;
}

// Scopes that torch opens itself are not the user's regions.
bool is_torchs_own(std::string_view name) {
  return name.starts_with("Torch-Compiled Region") || name.starts_with("ProfilerStep") ||
         name.starts_with("## ") || name.find("::") != std::string_view::npos;
}

}  // namespace

[[gnu::noinline]] void begin_user_scope(const void* key, std::string_view name) noexcept try {
  ThreadState& thread = thread_state();
  settle_operator(thread, PLIMSOLL_STACK_BASE);
  thread.user_scopes.reserve(thread.user_scopes.size() + 1);
  plimsoll_context& context = *thread.context;
  const std::uint8_t phase = phase_of(name);
  UserScope scope{.key = key, .phase = phase, .phase_before = context.phase};
  if (phase != PLIMSOLL_PHASE_OTHER) {
    observe_backward(thread);
    // The operator that opens the scope is still running: it must not undo this.
    context.phase = thread.phase_outside = phase;
    if (const auto* listener = range_listener()) listener->begin(PLIMSOLL_RANGE_PHASE, phase);
  } else if (!is_torchs_own(name)) {
    scope.region = thread.names.find_text(name).id;
    recorder().mark(&context, PLIMSOLL_MARK_REGION_BEGIN, scope.region);
  }
  thread.user_scopes.push_back(scope);
} catch (const std::exception&) {
  count_lost_detail();
}

// Scopes may end in any order and on another thread; the phase is restored when the innermost one
// ends.
[[gnu::noinline]] void end_user_scope(const void* key) noexcept {
  if (t_state == nullptr) return;
  ThreadState& thread = *t_state;
  settle_operator(thread, PLIMSOLL_STACK_BASE);
  std::vector<UserScope>& scopes = thread.user_scopes;
  const auto found = std::find_if(scopes.rbegin(), scopes.rend(),
                                  [&](const UserScope& scope) { return scope.key == key; });
  if (found == scopes.rend()) return;
  plimsoll_context& context = *thread.context;
  if (found->phase != PLIMSOLL_PHASE_OTHER) {
    if (const auto* listener = range_listener()) {
      listener->end(PLIMSOLL_RANGE_PHASE, found->phase);
    }
    const std::uint8_t before = found->phase_before;
    const auto inner = std::find_if(scopes.rbegin(), found, [](const UserScope& each) {
      return each.phase != PLIMSOLL_PHASE_OTHER;
    });
    if (inner == found) {
      // The running operator, if any, restores this phase too when it ends.
      context.phase = before;
      thread.phase_outside = before;
    }
  }
  if (found->region != 0) recorder().mark(&context, PLIMSOLL_MARK_REGION_END, found->region);
  scopes.erase(std::next(found).base());
}

namespace {

// One callback for both kinds of scope: torch copies the list of callbacks for every autograd node.
Observed began(const at::RecordFunction& record) {
  if (record.scope() == at::RecordScope::FUNCTION) return operator_began(record);
  begin_user_scope(&record, record.name());
  return nullptr;
}
void ended(const at::RecordFunction& record, at::ObserverContext* observer) {
  record.scope() == at::RecordScope::FUNCTION ? operator_ended(record, observer)
                                              : end_user_scope(&record);
}

at::CallbackHandle g_handle = at::INVALID_CALLBACK_HANDLE;

void add_callback() {
  const auto* const native = observes_uses() ? nullptr : g_attachment.wanted_native.load();
  g_attachment.native.store(native, std::memory_order_release);
  if (native != nullptr) {
    g_attachment.outputs = Outputs::kIgnored;
    return;
  }
  // In Python programs, where modules describe what they return, operators do so only in steps in
  // which their inputs are read as well.
  if (g_attachment.has_python && g_attachment.outputs != Outputs::kAll) {
    g_attachment.outputs = observes_uses() ? Outputs::kNew : Outputs::kIgnored;
  }
  at::RecordFunctionCallback callback(began, ended);
  std::unordered_set<at::RecordScope, std::hash<at::RecordScope>> scopes{
      at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE};
  if (g_attachment.has_scopes_of_python) scopes.erase(at::RecordScope::USER_SCOPE);
  g_handle = at::addGlobalCallback(
      callback.scopes(scopes)
          .needsInputs(g_has_inputs.load(std::memory_order_relaxed) || observes_uses())
          .needsOutputs(g_attachment.outputs != Outputs::kIgnored));
}

}  // namespace

void observe_operators(Outputs outputs) {
  g_attachment.outputs = outputs;
  g_attachment.has_operators = true;
  try {
    add_callback();
  } catch (...) {
    g_attachment.outputs = Outputs::kIgnored;
    g_attachment.has_operators = false;
    throw;
  }
}

void stop_observing_operators() {
  if (g_handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(g_handle);
  g_handle = at::INVALID_CALLBACK_HANDLE;
  g_attachment.native.store(nullptr, std::memory_order_release);
  g_has_inputs.store(false);
  const bool has_observed = g_attachment.has_operators.exchange(false);
  stop_uses();  // renews no callback: nothing is observed any more
  if (!has_observed) return;
  g_attachment.outputs = Outputs::kIgnored;
  // The nodes built since then have their links: only later ones are filled in by layer.
  if (t_state != nullptr) t_state->filled_sequence = at::sequence_number::peek();
}

void observe_inputs() {
  if (!g_attachment.has_operators || g_has_inputs.exchange(true)) return;
  renew_callback();
}

void renew_callback() {
  if (!g_attachment.has_operators) return;
  if (g_handle != at::INVALID_CALLBACK_HANDLE) {
    at::removeCallback(std::exchange(g_handle, at::INVALID_CALLBACK_HANDLE));
  }
  add_callback();
}

}  // namespace plimsoll::libtorch
