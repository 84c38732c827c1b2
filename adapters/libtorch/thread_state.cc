#include "thread_state.h"

#include <ATen/record_function.h>
#include <pthread.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <exception>
#include <memory>

namespace plimsoll::libtorch {

thread_local ThreadState* t_state [[gnu::tls_model("initial-exec")]] = nullptr;
std::atomic<std::uint32_t> g_backward_ends{0};

namespace {

void free_thread_state(void* thread) noexcept {
  auto* const state = static_cast<ThreadState*>(thread);
  if (t_state == state) t_state = nullptr;
  LinkTable::retire(*state->links);
  delete state;
}

// Frees the state when the thread ends. Tensors that die later still create a new state, which the
// key frees as well. A thread_local object with a destructor would end the program if there is no
// memory to register it.
struct ThreadEnd {
  pthread_key_t key{};
  bool is_made = pthread_key_create(&key, free_thread_state) == 0;
};

void call_at_thread_end(ThreadState* state) noexcept {
  static const ThreadEnd kEnd;
  if (kEnd.is_made) pthread_setspecific(kEnd.key, state);
}

}  // namespace

[[gnu::noinline]] ThreadState& make_thread_state() {
  auto state = std::make_unique<ThreadState>();
  state->context = recorder().context();
  state->nodes.reserve(16);
  state->user_scopes.reserve(8);
  state->links = &LinkTable::claim(at::RecordFunction::currentThreadId());
  t_state = state.release();
  call_at_thread_end(t_state);
  return *t_state;
}

ThreadState* try_make_thread_state() noexcept {
  try {
    return &make_thread_state();
  } catch (const std::exception&) {
    count_lost_detail();
    return nullptr;
  }
}

namespace {

// The backward itself retains this object, so it dies when the backward ends, even by an exception.
class BackwardEnd {
 public:
  explicit BackwardEnd(int task) : task_(task) {}
  BackwardEnd(const BackwardEnd&) = delete;
  BackwardEnd& operator=(const BackwardEnd&) = delete;
  ~BackwardEnd() {
    g_backward_ends.fetch_add(1, std::memory_order_relaxed);
    ThreadState* thread = t_state;
    if (!is_attached() || thread == nullptr || thread->graph_task != task_ ||
        thread->attachment != g_attachment.number) {
      return;
    }
    thread->graph_task = -1;
    pass_graph(*thread);
    recorder().mark(thread->context, PLIMSOLL_MARK_BACKWARD_END, 0);
  }
  // A timeline needs this immediately. The engine calls it, unless an exception ends the backward.
  void end_range() const {
    if (!is_attached()) return;
    if (const auto* listener = range_listener()) {
      listener->end(PLIMSOLL_RANGE_PHASE, PLIMSOLL_PHASE_BACKWARD);
    }
  }

 private:
  int task_;
};

bool watch_end_of_backward(ThreadState& thread, int task) {
  try {
    auto end = std::make_shared<BackwardEnd>(task);
    thread.backward_end = end;
    torch::autograd::Engine::get_default_engine().queue_callback([end] { end->end_range(); });
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

bool is_in_node(const ThreadState& thread) {
  return !thread.nodes.empty() ||
         (native_source() != nullptr && torch::autograd::get_current_node() != nullptr);
}

bool observe_backward(ThreadState& thread) {
  if (thread.attachment != g_attachment.number) {
    thread.attachment = g_attachment.number;
    thread.graph_task = -1;  // the graph task belongs to another recording
  }
  const int task = torch::autograd::get_current_graph_task_id();
  // A backward inside a node (reentrant checkpointing) is part of the outer one.
  const bool is_inside = task >= 0 && thread.graph_task >= 0 && native_source() != nullptr &&
                         !thread.backward_end.expired();
  if (task == thread.graph_task || !thread.nodes.empty() || is_inside) return task >= 0;
  if (thread.graph_task >= 0) recorder().mark(thread.context, PLIMSOLL_MARK_BACKWARD_END, 0);
  if (task >= 0) recorder().mark(thread.context, PLIMSOLL_MARK_BACKWARD_BEGIN, 0);
  thread.graph_task = task;
  pass_graph(thread);
  const auto position = task >= 0 ? stack_source().position : nullptr;
  thread.python_position_slot = position == nullptr ? nullptr : position();
  thread.backward_ends = g_backward_ends.load(std::memory_order_relaxed);
  thread.hears_backward_end = task >= 0 && watch_end_of_backward(thread, task);
  return task >= 0;
}

bool find_forward(ThreadState& thread, std::uint64_t forward_thread, std::uint64_t sequence,
                  ForwardSite& site) {
  const LinkTable* links = thread.last_links;
  if (links == nullptr || links->owner() != forward_thread) {
    links = LinkTable::of(forward_thread);
    if (links == nullptr) return false;
    thread.last_links = links;
  }
  return links->find(sequence, site);
}

void fill_links(ThreadState& thread) {
  const std::uint64_t next = at::sequence_number::peek();
  const std::uint64_t newest = next > LinkTable::kCapacity ? next - LinkTable::kCapacity : 0;
  for (std::uint64_t sequence = std::max(thread.filled_sequence, newest); sequence < next;
       ++sequence) {
    thread.links->store(sequence, {.layer = thread.context->layer, .op = 0, .stack = 0});
  }
  thread.filled_sequence = next;
}

}  // namespace plimsoll::libtorch
