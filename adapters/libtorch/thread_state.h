// The state of one thread, written by that thread alone. The part that the recorder reads at each
// event is its plimsoll_context.
//
// Three kinds of scopes nest, always properly, because each ends when its scope is left, by return
// or by exception: operators (inner ones only change inner_op), autograd nodes, and module calls. A
// node or a module call saves the whole context, starts with a fresh one and restores it.
#pragma once

#include <ATen/SequenceNumber.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attachment.h"
#include "autograd_link.h"
#include "names.h"

namespace torch::autograd {
int get_current_graph_task_id();  // graph_task.h, whose includes cost seconds
}

namespace plimsoll::libtorch {

inline constexpr std::uint32_t kNoOperator = ~std::uint32_t{0};

// Native attribution: what the thread's context describes. An operator counts as running while its
// anchor, a word of the stack, contains the return address of its call.
struct RunningOperator {
  const char* anchor = nullptr;
  std::uint64_t anchor_value = 0;
  const void* frame = nullptr;        // of the Python code that has called the operator
  const void* instruction = nullptr;  // in that code
  std::uint64_t values = 0;           // a sum over that code's variables and operands
  const void* node = nullptr;         // the autograd node that runs; null: none
  std::uint32_t node_stack = 0;       // the stack of its forward
  bool is_described = false;          // false: the context is the one outside operators
  bool has_built = false;             // an autograd node
};

// The context that a node or module call saves.
struct SavedContext {
  plimsoll_context context;
  std::uint32_t outermost_depth;
  std::int64_t outer_sequence;
  std::uint8_t phase_outside;
  std::uint32_t layer_outside;
  RunningOperator running;
};

// A running autograd node.
struct RunningNode {
  SavedContext saved;
  std::uint32_t depth;
  const void* python_position;  // at its start
};

// A user scope that changed the phase (an optimizer's step, a data loader's next) or began a
// region.
struct UserScope {
  const void* key = nullptr;
  std::uint8_t phase = 0;  // PLIMSOLL_PHASE_OTHER: it means none
  std::uint8_t phase_before = 0;
  std::uint32_t region = 0;
};

// The tensors most recently met by this thread. Wider shapes are described again each time.
struct KnownTensor {
  static constexpr std::size_t kDimensions = 6;
  std::uint32_t id = 0;
  std::uint32_t name = 0;
  std::uint8_t role = 0;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::uint8_t dimensions = 0;
  std::array<std::int64_t, kDimensions> sizes{};
};

// What the running operators of a thread have allocated and no operator has returned yet. Of too
// many blocks, the oldest are forgotten and stay without a dtype.
class NewBlocks {
 public:
  bool empty() const { return count_ == 0 && !has_device_blocks_; }
  void add(std::uint64_t address) { addresses_[count_++ % kMost] = address; }
  // A block of a caching allocator, whose address only that allocator knows.
  void add_device_block() { has_device_blocks_ = true; }
  // Returns whether the block at this address is one of them, and forgets it.
  bool take(std::uint64_t address) {
    for (std::uint32_t i = std::min(count_, kMost); i > 0; --i) {
      if (addresses_[i - 1] != address) continue;
      addresses_[i - 1] = 0;
      while (count_ > 0 && count_ <= kMost && addresses_[count_ - 1] == 0) --count_;
      return true;
    }
    return false;
  }
  bool take_device_block(std::uint64_t address) {
    return has_device_blocks_ && std::exchange(last_device_block_, address) != address;
  }
  void clear() {
    count_ = 0;
    has_device_blocks_ = false;
    last_device_block_ = 0;
  }

 private:
  static constexpr std::uint32_t kMost = 64;
  std::array<std::uint64_t, kMost> addresses_{};
  std::uint32_t count_ = 0;
  bool has_device_blocks_ = false;
  std::uint64_t last_device_block_ = 0;  // the last one described
};

struct StackCache;    // python/frames.cc
struct NativeThread;  // python/native/attribution.cc

struct ThreadState {
  plimsoll_context* context = nullptr;
  LinkTable* links = nullptr;
  StackCache* stacks = nullptr;
  std::shared_ptr<void> stacks_owner;
  NativeThread* native = nullptr;
  std::shared_ptr<void> native_owner;

  std::uint32_t depth = 0;                      // operators and nodes running
  std::uint32_t outermost_depth = kNoOperator;  // of the outermost operator of this context
  std::uint32_t layer_depth = kNoOperator;      // of the operator whose parameters gave the layer
  std::uint32_t instances = 0;                  // outermost operators so far
  std::uint32_t function_depth = kNoOperator;   // of the outermost autograd.Function
  std::uint8_t function_autograd = PLIMSOLL_AUTOGRAD_UNKNOWN;  // of the operators in it
  std::uint32_t module_depth = 0;
  // torch's next node number at the start of the outermost operator
  std::int64_t outer_sequence = -1;
  std::uint8_t phase_outside = 0;   // the phase to restore after the outermost operator
  std::uint32_t layer_outside = 0;  // native attribution: the layer to restore then
  RunningOperator running;
  bool has_new_stacks = false;  // not yet passed to StackSource::define
  // Whether a node was built outside the observed operators: by torch::autograd::Function or
  // TorchScript, which then hide autograd from the operators that they run.
  bool has_unseen_nodes = false;

  int graph_task = -1;                    // the backward pass this thread was last seen in
  std::uint32_t attachment = 0;           // g_attachment.number at that time
  bool hears_backward_end = false;        // torch will report its end
  std::weak_ptr<void> backward_end;       // expires then
  std::uint32_t backward_ends = 0;        // g_backward_ends at that time
  const LinkTable* last_links = nullptr;  // of the forward thread that was last looked up
  std::uint64_t filled_sequence = 0;      // lite: links below this number have their layer
  std::uint64_t graph_sequence = 0;       // torch's next node number at pass_graph()
  std::uint32_t graph_attachment = 0;     // g_attachment.number at that time

  const void* last_output = nullptr;  // the storage last recorded as a module's output
  std::uint32_t last_output_instance = 0;
  // The last description of a result: an operator and the module around it return the same one.
  struct Described {
    const void* storage = nullptr;
    std::uint32_t instance = 0;
    std::uint32_t tensor = 0;
    bool operator==(const Described&) const = default;
  } described;

  std::vector<RunningNode> nodes;                     // outermost first
  const void* const* python_position_slot = nullptr;  // in a backward: StackSource::position
  std::vector<UserScope> user_scopes;
  NameCache names;
  std::unordered_map<const char*, std::uint64_t> used_arguments;  // by the address of the name
  std::array<KnownTensor, 256> known_tensors;
  NewBlocks new_blocks;  // only for Outputs::kNew
  static constexpr std::uint32_t kInnerLevels = 256;
  std::array<std::uint32_t, kInnerLevels> inner_before{};  // inner_op, by depth

  std::uint32_t next_instance() {
    if (++instances == 0) ++instances;
    return instances;
  }
  SavedContext save() const {
    return {*context, outermost_depth, outer_sequence, phase_outside, layer_outside, running};
  }
  void restore(const SavedContext& saved) {
    *context = saved.context;
    outermost_depth = saved.outermost_depth;
    outer_sequence = saved.outer_sequence;
    phase_outside = saved.phase_outside;
    layer_outside = saved.layer_outside;
    running = saved.running;
  }
  const void* python_position() const {
    return python_position_slot == nullptr ? nullptr : *python_position_slot;
  }
  // Whether Python code runs inside the innermost node: a hook, or the backward of an
  // autograd.Function.
  bool runs_python_in_node() const {
    return !nodes.empty() && nodes.back().depth == outermost_depth &&
           nodes.back().python_position != python_position();
  }
  // Native attribution: restores the context outside operators.
  void leave_described() {
    if (!running.is_described) return;
    context->phase = phase_outside;
    context->layer = layer_outside;
    leave_operator();
  }
  // Sets a fresh context: the same layer and phase, and no operator.
  void leave_operator() {
    running.is_described = false;
    context->outer_op = context->inner_op = context->forward_op = context->stack = 0;
    context->op_instance = 0;
    context->autograd = PLIMSOLL_AUTOGRAD_UNKNOWN;
    outermost_depth = kNoOperator;
    outer_sequence = -1;
  }
};

// Throws std::bad_alloc.
ThreadState& make_thread_state();
// Returns null if there is no memory, and counts that.
ThreadState* try_make_thread_state() noexcept;

// One pointer in static TLS: a plain load instead of a call into the dynamic linker.
extern thread_local ThreadState* t_state [[gnu::tls_model("initial-exec")]];

inline ThreadState& thread_state() {
  ThreadState* state = t_state;
  return state != nullptr ? *state : make_thread_state();
}

// For callers that must not throw: an allocator, and a deleter.
inline ThreadState* thread_state_or_null() noexcept {
  ThreadState* state = t_state;
  return state != nullptr ? state : try_make_thread_state();
}

// Call this before a hook reads or sets the context. `base`: PLIMSOLL_STACK_BASE of the hook.
inline void settle_operator(ThreadState& thread, const char* base) {
  if (!thread.running.is_described) return;
  const NativeSource* const native = native_source();
  native == nullptr ? thread.leave_described() : native->settle(thread, base);
}

// Whether an autograd node runs on this thread.
bool is_in_node(const ThreadState& thread);

// Defines in the recorder the stacks that are new on this thread. `define` is null if the hooks
// were reinstalled without stacks after an operator found them.
inline void define_new_stacks(ThreadState& thread) {
  const auto define = stack_source().define;
  if (thread.has_new_stacks && define != nullptr) {
    define(thread);
  }
}

// How many backward passes have ended, on all threads, and how often hooks were attached.
extern std::atomic<std::uint32_t> g_backward_ends;

// Detects the beginning or end of a backward on this thread, and returns whether one runs.
bool observe_backward(ThreadState& thread);

// The check at each allocation. Inside a known backward pass it does not query torch, which would
// dominate the cost, until some pass has ended.
inline bool is_in_backward(ThreadState& thread) {
  if (thread.graph_task < 0) {
    return torch::autograd::get_current_graph_task_id() >= 0 && observe_backward(thread);
  }
  if (thread.hears_backward_end &&
      thread.backward_ends == g_backward_ends.load(std::memory_order_relaxed)) {
    return true;
  }
  return observe_backward(thread);
}

// Notes that nodes built so far do not belong to the next allocation.
inline void pass_graph(ThreadState& thread) {
  thread.graph_sequence = at::sequence_number::peek();
  thread.graph_attachment = g_attachment.number.load(std::memory_order_relaxed);
}

// Forgets nodes that were built outside the observed operators: what follows does not belong to
// them.
inline void pass_unseen_nodes(ThreadState& thread) {
  pass_graph(thread);
  thread.has_unseen_nodes = false;
}

// The phase of an allocation that no observed operator makes. An operator builds its autograd node
// before it allocates: outside modules, the allocation after a new node is forward, as it is for
// observed operators (end_outermost). Between the node and the result, `x * 0.1` allocates the
// number in the dtype of x: after a number, the next allocation belongs to the node as well.
// `phase`: by modules and optimizers. `size_bytes`: if it may be a number.
inline std::uint8_t phase_by_graph(ThreadState& thread, std::uint8_t phase,
                                   std::size_t size_bytes = SIZE_MAX) {
  constexpr std::size_t kMostOfANumber = 8;
  if (phase != PLIMSOLL_PHASE_OTHER) return phase;
  const std::uint64_t before = thread.graph_sequence;
  const bool is_known =
      thread.graph_attachment == g_attachment.number.load(std::memory_order_relaxed);
  if (!is_known || size_bytes > kMostOfANumber) pass_graph(thread);
  const bool has_built = is_known && before < at::sequence_number::peek();
  return has_built ? std::uint8_t{PLIMSOLL_PHASE_FORWARD} : phase;
}

// Finds the forward operator of a node, by its number and the thread that built it.
bool find_forward(ThreadState& thread, std::uint64_t forward_thread, std::uint64_t sequence,
                  ForwardSite& site);

// Lite mode: assigns the nodes built since the last call to the current layer. Call it before the
// layer changes.
void fill_links(ThreadState& thread);

}  // namespace plimsoll::libtorch
