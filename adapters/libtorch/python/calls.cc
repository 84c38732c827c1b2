// Observes calls of modules without Python code in between.
//
// Calling an object runs its type's tp_call. For a class written in Python that is CPython's
// slot_tp_call, which looks up __call__. The slots of nn.Module and its subclasses are replaced by
// a function that records the layer and calls the original: attributes do not change, so
// torch.compile, torch.fx and torch.jit see the classes they know.
#include <exception>
#include <unordered_map>
#include <vector>

#include "autograd_nodes.h"
#include "parameters.h"
#include "python/frames.h"
#include "python/holders/find.h"
#include "python/modules.h"
#include "python/objects.h"
#include "python/optimizers.h"
#include "tensor_parts.h"

namespace plimsoll::libtorch {
namespace {

// The original slots. The types are retained while their slots contain our function.
std::unordered_map<PyTypeObject*, ternaryfunc>& originals() {
  static Immortal<std::unordered_map<PyTypeObject*, ternaryfunc>> slots;
  return slots.get();
}
ternaryfunc g_common_original = nullptr;  // nn.Module's, which nearly all have
bool g_has_others = false;

[[gnu::noinline]] ternaryfunc original_among_others(PyTypeObject* type) {
  for (; type != nullptr; type = type->tp_base) {
    const auto found = originals().find(type);
    if (found != originals().end()) return found->second;
  }
  return g_common_original;
}

ternaryfunc original_of(PyTypeObject* type) {
  return g_has_others ? original_among_others(type) : g_common_original;
}

// ---- inputs and outputs -----------------------------------------------------------------------

// Recent outputs of root modules. A model's output goes into the loss, and often into the next
// step; that does not make it an input.
class RecentOutputs {
 public:
  void add(const at::Tensor& tensor) {
    if (storages_.size() < kKept) {
      storages_.push_back(weak_storage(tensor));
    } else {
      storages_[next_++ % kKept] = weak_storage(tensor);
    }
  }
  bool has(const at::Tensor& tensor) const {
    for (const auto& storage : storages_) {
      if (is_same_storage(storage, tensor)) return true;
    }
    return false;
  }
  void clear() { storages_.clear(); }

 private:
  static constexpr std::size_t kKept = 64;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;
  std::size_t next_ = 0;
};
RecentOutputs& recent_outputs() {
  static Immortal<RecentOutputs> outputs;
  return outputs.get();
}

void tag_inputs(ThreadState& thread, PyObject* args, PyObject* kwargs) {
  const auto tag = [&](const Path& path, const at::Tensor& tensor) {
    const bool was_computed = tensor.unsafeGetTensorImpl()->requires_grad() && !tensor.is_leaf();
    const bool has_memory = recorded_storage(tensor) != nullptr || !parts_of(tensor).empty();
    if (!has_memory || was_computed || recent_outputs().has(tensor)) return;
    tag_tensor(thread, tensor, PLIMSOLL_ROLE_INPUT, name_id(path.text()));
  };
  for_each_tensor(args, Path("args"), tag);
  for_each_tensor(kwargs, Path(""), tag);
}

void tag_outputs(ThreadState& thread, PyObject* result) {
  for_each_tensor(result, Path(""), [&](const Path& /*path*/, const at::Tensor& tensor) {
    // A container returns its last child's output: no operator in between, the same storage.
    const void* storage = recorded_storage(tensor);
    if (storage == nullptr) return;
    if (thread.module_depth == 0) recent_outputs().add(tensor);
    if (storage == thread.last_output && thread.instances == thread.last_output_instance) return;
    thread.last_output = storage;
    thread.last_output_instance = thread.instances;
    tag_output(thread, tensor);
  });
}

// ---- the call ---------------------------------------------------------------------------------

void begin_call(ThreadState& thread, std::uint32_t layer) {
  if (g_attachment.has_walks && !g_attachment.has_operators) fill_links(thread);
  plimsoll_context& context = *thread.context;
  // A call inside a forward belongs to it. Asking torch would take longer than everything else
  // here.
  const bool is_nested = thread.module_depth != 0 && context.phase == PLIMSOLL_PHASE_FORWARD;
  if (thread.module_depth == 0 && !is_in_node(thread)) pass_unseen_nodes(thread);
  if (context.phase != PLIMSOLL_PHASE_BACKWARD && !is_nested) {
    context.phase = observe_backward(thread) ? PLIMSOLL_PHASE_BACKWARD : PLIMSOLL_PHASE_FORWARD;
  }
  context.layer = layer;
  thread.leave_operator();
  ++thread.module_depth;
}

void end_call(ThreadState& thread, const SavedContext& saved) {
  if (g_attachment.has_walks && !g_attachment.has_operators) fill_links(thread);
  if (--thread.module_depth == 0) pass_graph(thread);
  thread.restore(saved);
}

PyTypeObject* g_root_class = nullptr;
Py_ssize_t g_direct_subclasses = 0;  // of g_root_class, when they were watched last

// CPython's count of direct subclasses; -1 if it keeps none.
Py_ssize_t direct_subclasses(PyTypeObject* type) {
  auto* subclasses = static_cast<PyObject*>(type->tp_subclasses);
  return subclasses != nullptr && PyDict_Check(subclasses) != 0 ? PyDict_Size(subclasses) : -1;
}

// State that a call sets, and restores when it ends.
struct Call {
  ThreadState* thread = nullptr;  // null: this call is not observed
  std::uint32_t layer = 0;
  bool is_root = false;  // the outermost call of a forward
  bool has_wrappers = false;
  bool is_wrapped = false;  // the call of the wrapper, which is running, counts as the layer's call
  SavedContext saved;
};

bool runs_in_its_wrapper(const ThreadState& thread, const Module& module) {
  if (thread.context->layer != module.layer || thread.module_depth == 0) return false;
  const Module* parent = module.parent == nullptr ? nullptr : modules().find(module.parent);
  return parent != nullptr && parent->layer == module.layer;
}

void begin_ranges(const Call& call) {
  const plimsoll_range_listener* listener = range_listener();
  if (listener == nullptr) return;
  if (call.is_root) listener->begin(PLIMSOLL_RANGE_PHASE, PLIMSOLL_PHASE_FORWARD);
  if (!call.is_wrapped) listener->begin(PLIMSOLL_RANGE_LAYER, call.layer);
}

void end_ranges(const Call& call) {
  const plimsoll_range_listener* listener = range_listener();
  if (listener == nullptr) return;
  if (!call.is_wrapped) listener->end(PLIMSOLL_RANGE_LAYER, call.layer);
  if (call.is_root) listener->end(PLIMSOLL_RANGE_PHASE, PLIMSOLL_PHASE_FORWARD);
}

[[gnu::noinline]] void begin_root(ThreadState& thread, PyObject* args, PyObject* kwargs) {
  if (!g_attachment.has_operators) thread.context->phase = PLIMSOLL_PHASE_OTHER;  // a step failed
  watch_new_classes();  // usually a loss, which is called next
  poll_foreign_storages(thread);
  // A step without an optimizer, such as `p.data = p.data - lr * p.grad`, calls no hook.
  if (g_attachment.has_walks && parameters().take_accumulated()) modules().tag_changed(thread);
  tag_inputs(thread, args, kwargs);
}

[[gnu::noinline]] void enter(Call& call, PyObject* self, PyObject* args, PyObject* kwargs) {
  Module* module = modules().find_or_add(self);
  if (module == nullptr) return;
  ThreadState& thread = thread_state();
  call.layer = modules().layer_of_called(thread, *module);
  settle_operator(thread, PLIMSOLL_STACK_BASE);
  hold_seen_code(thread);
  call.is_root = thread.module_depth == 0 && !is_in_node(thread);
  if (call.is_root) begin_root(thread, args, kwargs);
  call.has_wrappers = module->has_wrappers;
  call.is_wrapped = runs_in_its_wrapper(thread, *module);
  call.saved = thread.save();
  call.thread = &thread;
  begin_call(thread, call.layer);
  begin_ranges(call);
}

// A program without steps, such as inference: memory that it retains from call to call grows.
void end_step_of_calls(ThreadState& thread, holders::Passed passed) {
  recorder().mark(thread.context, PLIMSOLL_MARK_CALL_END, 0);
  holders::find_wanted_holders(passed);
}

PyObject* watched_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  const ternaryfunc original = original_of(Py_TYPE(self));
  if (!is_attached()) return original(self, args, kwargs);
  Call call;
  try {
    enter(call, self, args, kwargs);
  } catch (const std::exception&) {  // out of memory must not stop the program
    count_lost_detail();
  }
  PyObject* result = original(self, args, kwargs);
  if (call.thread == nullptr) return result;
  end_ranges(call);
  end_call(*call.thread, call.saved);
  if (g_attachment.has_operators && is_attached() && result != nullptr) {
    try {
      tag_outputs(*call.thread, result);
      if (call.has_wrappers) modules().tag_called(*call.thread, self);
      if (call.is_root && !has_steps()) {
        PyObject* const passed[] = {result, args, kwargs};
        end_step_of_calls(*call.thread, passed);
      }
    } catch (const std::exception&) {
      count_lost_detail();
    }
  }
  return result;
}

void for_each_subclass(PyTypeObject* type, auto&& visit) {
  visit(type);
  Reference subclasses = Reference::steal(
      PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__", "O", type));
  if (!subclasses) {
    PyErr_Clear();
    return;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(subclasses.get()); ++i) {
    for_each_subclass(reinterpret_cast<PyTypeObject*>(PyList_GET_ITEM(subclasses.get(), i)), visit);
  }
}

}  // namespace

void (*boundary_of_calls())() { return reinterpret_cast<void (*)()>(watched_call); }

void watch_calls_of(PyTypeObject* type) {
  if (type->tp_call == watched_call || type->tp_call == nullptr) return;
  const auto [entry, is_new] = originals().emplace(type, type->tp_call);
  if (is_new) Py_INCREF(type);
  entry->second = type->tp_call;
  if (g_common_original == nullptr) g_common_original = type->tp_call;
  if (type->tp_call != g_common_original) g_has_others = true;
  type->tp_call = watched_call;
}

void watch_calls(PyTypeObject* root) {
  g_root_class = root;
  for_each_subclass(root, [](PyTypeObject* type) { watch_calls_of(type); });
  g_direct_subclasses = direct_subclasses(root);
}

// Assigning nn.Module.__call__ (torch.fx does while it traces) resets the slots of all classes;
// nn.Module's own slot shows that. A new class starts with CPython's slot.
void watch_new_classes() {
  if (g_root_class->tp_call == watched_call &&
      direct_subclasses(g_root_class) == g_direct_subclasses) {
    return;
  }
  watch_calls(g_root_class);
}

void stop_watching_calls() {
  if (g_root_class == nullptr) return;
  for_each_subclass(g_root_class, [](PyTypeObject* type) {
    if (type->tp_call == watched_call) type->tp_call = original_of(type);
  });
  std::unordered_map<PyTypeObject*, ternaryfunc> held;
  held.swap(originals());
  g_common_original = nullptr;
  g_has_others = false;
  recent_outputs().clear();
  for (const auto& [type, original] : held) Py_DECREF(type);
}

}  // namespace plimsoll::libtorch
