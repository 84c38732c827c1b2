// Watches the C functions behind Python methods: a method's PyMethodDef contains the function that
// CPython calls. Exchanging it changes no object that a program can see.
#include "python/escapes.h"

#include <torch/csrc/DynamicTypes.h>

#include <algorithm>
#include <array>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "python/objects.h"
#include "uses.h"

namespace plimsoll::libtorch {
namespace {

// ---- memory ------------------------------------------------------------------------------------

// Calls `visit` with the addresses of tensors, also in nested lists, tuples and dicts, and of
// storages, also in tuples. Other objects have none.
template <typename Visit>
void for_each_address(PyObject* object, Visit&& visit) {
  const auto visit_tensor = [&](const Path& /*path*/, const at::Tensor& tensor) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (impl.has_storage() && memory_of(impl) != nullptr)
      visit(reinterpret_cast<std::uintptr_t>(memory_of(impl)));
  };
  if (object == nullptr) return;
  if (PyTuple_Check(object) != 0) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      for_each_address(PyTuple_GET_ITEM(object, i), visit);
    }
  } else if (as_tensor(object) == nullptr && torch::isStorage(object)) {
    const c10::Storage storage = torch::createStorage(object);
    if (!storage) return;
    void* const memory = storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
    if (memory != nullptr) visit(reinterpret_cast<std::uintptr_t>(memory));
  } else {
    for_each_tensor(object, Path(""), visit_tensor);
  }
}

using Objects = std::span<PyObject* const>;

void escape(Objects objects) noexcept try {
  for (PyObject* object : objects) {
    for_each_address(object, [](std::uint64_t address) { recorder().escape(address); });
  }
} catch (const std::exception&) {
  count_lost_detail();
}

void use(plimsoll_context* context, Objects objects) {
  std::vector<std::uint64_t> addresses;
  for (PyObject* object : objects) {
    for_each_address(object, [&](std::uint64_t address) { addresses.push_back(address); });
  }
  recorder().use(context, addresses.data(), addresses.size());
}

// While this exists, the objects are in use, as is what the thread allocates.
class UseInCall {
 public:
  explicit UseInCall(Objects objects, Objects more = {}) noexcept try {
    ThreadState* const thread = thread_state_or_null();
    if (!is_attached() || !observes_uses() || thread == nullptr) return;
    context_ = thread->context;
    recorder().use_region(context_, 1);
    use(context_, objects);
    use(context_, more);
  } catch (const std::exception&) {
    count_lost_detail();
  }
  UseInCall(const UseInCall&) = delete;
  UseInCall& operator=(const UseInCall&) = delete;
  ~UseInCall() {
    if (context_ == nullptr) return;
    recorder().use_region(context_, 0);
    if (context_->op_instance == 0) recorder().end_uses(context_);
  }

 private:
  plimsoll_context* context_ = nullptr;
};

// Whatever is live may have been read: its last use is unknown unless an operator uses it later.
void interrupt_uses() noexcept {
  ThreadState* const thread = thread_state_or_null();
  if (!observes_uses() || thread == nullptr) return;
  recorder().observe_uses(thread->context, 0);
  recorder().observe_uses(thread->context, 1);
}

// ---- functions without an operator -------------------------------------------------------------

// kGivesSelf, kGivesArguments: the memory may be read at any time from then on. kReads: the object
// and its arguments are read until the function returns. kReadsAny: so is what no argument shows.
enum class Access : std::uint8_t { kGivesSelf, kGivesArguments, kReads, kReadsAny };

// CPython stores functions of all conventions as one type.
template <typename To, typename From>
To to(From* function) {
  return reinterpret_cast<To>(reinterpret_cast<void (*)()>(function));
}
using FastFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

struct Watched {
  const char* owner;  // an attribute of torch._C, or "NAME.NAME"; "": torch._C itself
  const char* name;
  Access access;
  PyMethodDef* definition = nullptr;
  PyCFunction ours = nullptr;
  PyCFunction original = nullptr;  // never forgotten: a call may still run
};

// torch.save() and pickle ask for a storage's data_ptr() or write it; print() calls tolist().
std::array g_watched = {
    Watched{"TensorBase", "numpy", Access::kGivesSelf},
    Watched{"TensorBase", "tolist", Access::kGivesSelf},
    Watched{"TensorBase", "data_ptr", Access::kGivesSelf},
    Watched{"TensorBase", "const_data_ptr", Access::kGivesSelf},
    Watched{"TensorBase", "apply_", Access::kReads},
    Watched{"TensorBase", "map_", Access::kReads},
    Watched{"StorageBase", "data_ptr", Access::kGivesSelf},
    Watched{"StorageBase", "resize_", Access::kReads},
    Watched{"StorageBase", "_write_file", Access::kGivesSelf},
    Watched{"StorageBase", "_byteswap", Access::kGivesSelf},
    Watched{"StorageBase", "_share_cuda_", Access::kGivesSelf},
    Watched{"StorageBase", "_share_fd_cpu_", Access::kGivesSelf},
    Watched{"StorageBase", "_share_filename_cpu_", Access::kGivesSelf},
    Watched{"Generator", "set_state", Access::kGivesArguments},
    Watched{"", "_to_dlpack", Access::kGivesArguments},
    Watched{"", "_to_dlpack_versioned", Access::kGivesArguments},
    Watched{"", "_pickle_save", Access::kReads},
    Watched{"PyTorchFileWriter", "write_record", Access::kReads},
    Watched{"ScriptModule", "save", Access::kReadsAny},
    Watched{"ScriptModule", "save_to_buffer", Access::kReadsAny},
    Watched{"_aoti.AOTIModelPackageLoader", "run", Access::kReads},
    Watched{"_aoti.AOTIModelPackageLoader", "boxed_run", Access::kReads},
    Watched{"_aoti.AOTIModelPackageLoader", "load_constants", Access::kGivesArguments},
    Watched{"_aoti.AOTIModelPackageLoader", "update_constant_buffer", Access::kGivesArguments},
    Watched{"_aoti.AOTIModelContainerRunnerCpu", "run", Access::kReads},
    Watched{"_aoti.AOTIModelContainerRunnerCpu", "update_constant_buffer", Access::kGivesArguments},
    Watched{"_aoti.AOTIModelContainerRunnerCuda", "run", Access::kReads},
    Watched{"_aoti.AOTIModelContainerRunnerCuda", "update_constant_buffer",
            Access::kGivesArguments},
};

template <typename Call>
PyObject* watch_call(Access access, PyObject* self, Objects arguments, Call call) {
  if (!is_attached()) return call();
  const Objects object(&self, 1);
  if (access == Access::kReads) {
    const UseInCall use(object, arguments);
    return call();
  }
  if (access == Access::kReadsAny) {
    PyObject* const result = call();
    interrupt_uses();
    return result;
  }
  const Objects given = access == Access::kGivesSelf ? object : arguments;
  escape(given);
  PyObject* const result = call();
  // A function shares memory after it has moved it: both places have escaped.
  if (result != nullptr) escape(given);
  return result;
}

// One function for each of CPython's calling conventions.
template <std::size_t kIndex>
struct Watcher {
  static PyObject* call(PyObject* self, PyObject* args) {
    return watch_call(g_watched[kIndex].access, self, Objects(&args, 1),
                      [&] { return g_watched[kIndex].original(self, args); });
  }
  static PyObject* call_with_keywords(PyObject* self, PyObject* args, PyObject* keywords) {
    const auto original = to<PyCFunctionWithKeywords>(g_watched[kIndex].original);
    return watch_call(g_watched[kIndex].access, self, std::array{args, keywords},
                      [&] { return original(self, args, keywords); });
  }
  static PyObject* call_fast(PyObject* self, PyObject* const* args, Py_ssize_t count,
                             PyObject* keywords) {
    const auto original = to<FastFunction>(g_watched[kIndex].original);
    const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
    const Objects arguments(args, static_cast<std::size_t>(count + named));
    return watch_call(g_watched[kIndex].access, self, arguments,
                      [&] { return original(self, args, count, keywords); });
  }
};

template <std::size_t kIndex>
void exchange(PyMethodDef& definition) {
  PyCFunction ours = nullptr;
  switch (definition.ml_flags & ~(METH_STATIC | METH_CLASS | METH_COEXIST)) {
    case METH_NOARGS:
    case METH_O:
    case METH_VARARGS:
      ours = Watcher<kIndex>::call;
      break;
    case METH_VARARGS | METH_KEYWORDS:
      ours = to<PyCFunction>(Watcher<kIndex>::call_with_keywords);
      break;
    case METH_FASTCALL | METH_KEYWORDS:
      ours = to<PyCFunction>(Watcher<kIndex>::call_fast);
      break;
    default:
      return;
  }
  if (definition.ml_meth == ours) return;
  Watched& watched = g_watched[kIndex];
  watched.definition = &definition;
  watched.ours = ours;
  watched.original = std::exchange(definition.ml_meth, ours);
}

PyMethodDef* definition_of(PyObject* object) {
  if (object == nullptr) return nullptr;
  if (PyInstanceMethod_Check(object) != 0) object = PyInstanceMethod_GET_FUNCTION(object);
  if (Py_IS_TYPE(object, &PyMethodDescr_Type)) {
    return reinterpret_cast<PyMethodDescrObject*>(object)->d_method;
  }
  return PyCFunction_Check(object) != 0 ? reinterpret_cast<PyCFunctionObject*>(object)->m_ml
                                        : nullptr;
}

Reference attribute(PyObject* object, const char* name) {
  PyObject* found = object == nullptr ? nullptr : PyObject_GetAttrString(object, name);
  if (found == nullptr) PyErr_Clear();
  return Reference::steal(found);
}

// "A.B": the attribute B of the attribute A.
Reference attribute_at(PyObject* object, std::string_view path) {
  Reference found = Reference::borrow(object);
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('.'), path.size());
    found = attribute(found.get(), std::string(path.substr(0, end)).c_str());
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return found;
}

template <std::size_t... kIndices>
void exchange_all(PyObject* module, std::index_sequence<kIndices...> /*indices*/) {
  const auto exchange_one = [&]<std::size_t kIndex>() {
    const Watched& watched = g_watched[kIndex];
    const Reference owner = attribute_at(module, watched.owner);
    const Reference method = attribute(owner.get(), watched.name);
    if (PyMethodDef* definition = definition_of(method.get())) exchange<kIndex>(*definition);
  };
  (exchange_one.template operator()<kIndices>(), ...);
}

void restore_all() {
  for (const Watched& watched : g_watched) {
    if (watched.definition == nullptr) continue;
    PyCFunction& current = watched.definition->ml_meth;
    if (current == watched.ours) current = watched.original;
  }
}

constexpr auto kEach = std::make_index_sequence<g_watched.size()>();

// ---- items of a storage -----------------------------------------------------------------------

PyWrapperDescrObject* g_item_method = nullptr;  // owned
binaryfunc g_item_original = nullptr;

PyObject* watched_item(PyObject* self, PyObject* index) {
  if (is_attached()) escape(Objects(&self, 1));
  return g_item_original(self, index);
}

void watch_items(PyObject* module) {
  const Reference owner = attribute(module, "StorageBase");
  Reference method = attribute(owner.get(), "__getitem__");
  if (!method || !Py_IS_TYPE(method.get(), &PyWrapperDescr_Type)) return;
  auto* const descriptor = reinterpret_cast<PyWrapperDescrObject*>(method.get());
  const auto current = reinterpret_cast<binaryfunc>(descriptor->d_wrapped);
  if (current == watched_item) return;
  g_item_original = current;
  descriptor->d_wrapped = reinterpret_cast<void*>(watched_item);
  Py_INCREF(method.get());
  g_item_method = descriptor;
}

void stop_watching_items() {
  PyWrapperDescrObject* const method = std::exchange(g_item_method, nullptr);
  if (method == nullptr) return;
  if (method->d_wrapped == reinterpret_cast<void*>(watched_item)) {
    method->d_wrapped = reinterpret_cast<void*>(g_item_original);
  }
  Py_DECREF(method);
}

// ---- tensors that an autograd.Function has saved ----------------------------------------------

// The backward may pass them to functions that are no operators, until the node ends.
PyGetSetDef* g_saved = nullptr;
getter g_saved_original = nullptr;

void use_in_node(PyObject* tensors) noexcept try {
  ThreadState* const thread = thread_state_or_null();
  if (thread == nullptr || thread->nodes.empty() || thread->context->op_instance == 0) {
    escape(Objects(&tensors, 1));
  } else if (observes_uses()) {
    use(thread->context, Objects(&tensors, 1));
  }
} catch (const std::exception&) {
  count_lost_detail();
}

PyObject* watched_saved(PyObject* self, void* closure) {
  PyObject* const result = g_saved_original(self, closure);
  if (result != nullptr && is_attached()) use_in_node(result);
  return result;
}

void watch_saved(PyObject* module) {
  const Reference function = attribute(module, "_FunctionBase");
  const Reference found = attribute(function.get(), "saved_tensors");
  if (!found || !Py_IS_TYPE(found.get(), &PyGetSetDescr_Type)) return;
  PyGetSetDef* const definition = reinterpret_cast<PyGetSetDescrObject*>(found.get())->d_getset;
  if (definition->get == watched_saved) return;
  g_saved = definition;
  g_saved_original = std::exchange(definition->get, watched_saved);
}

void stop_watching_saved() {
  PyGetSetDef* const definition = std::exchange(g_saved, nullptr);
  if (definition != nullptr && definition->get == watched_saved) {
    definition->get = g_saved_original;
  }
}

// ---- compiled graphs --------------------------------------------------------------------------

// Inductor's graphs run kernels without operators. Their one caller passes a list of arguments:
// inputs, and in a backward what the forward has saved.
PyTypeObject* g_graph_class = nullptr;  // owned
ternaryfunc g_graph_original = nullptr;

// Its kernels also use what the graph allocates for itself.
PyObject* watched_graph(PyObject* self, PyObject* args, PyObject* keywords) {
  const UseInCall use(Objects(&args, 1));
  return g_graph_original(self, args, keywords);
}

void watch_graphs() {
  if (g_graph_class != nullptr) return;
  static PyObject* const name = interned("torch._inductor.output_code");
  PyObject* const module = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
  if (module == nullptr) return PyErr_Clear();
  const Reference type = attribute(module, "CompiledFxGraph");
  if (!type || PyType_Check(type.get()) == 0) return;
  Py_INCREF(type.get());
  g_graph_class = reinterpret_cast<PyTypeObject*>(type.get());
  g_graph_original = std::exchange(g_graph_class->tp_call, watched_graph);
}

void stop_watching_graphs() {
  PyTypeObject* const type = std::exchange(g_graph_class, nullptr);
  if (type == nullptr) return;
  if (type->tp_call == watched_graph) type->tp_call = g_graph_original;
  Py_DECREF(type);
}

// dynamo calls this C function before it runs what it has compiled: by then, the class exists.
PyMethodDef* g_frame_switch = nullptr;
PyCFunction g_frame_switch_original = nullptr;

PyObject* watched_frame_switch(PyObject* self, PyObject* callback) {
  if (is_attached() && g_graph_class == nullptr) watch_graphs();
  return g_frame_switch_original(self, callback);
}

void watch_frame_switch(PyObject* module) {
  const Reference dynamo = attribute(module, "_dynamo");
  const Reference frames = attribute(dynamo.get(), "eval_frame");
  const Reference function = attribute(frames.get(), "set_eval_frame");
  PyMethodDef* const definition = definition_of(function.get());
  if (definition == nullptr || definition->ml_meth == watched_frame_switch) return;
  if ((definition->ml_flags & (METH_O | METH_VARARGS)) == 0) return;
  if ((definition->ml_flags & METH_KEYWORDS) != 0) return;
  g_frame_switch = definition;
  g_frame_switch_original = std::exchange(definition->ml_meth, watched_frame_switch);
}

}  // namespace

void watch_escapes() {
  if (!wants_uses()) return;
  const Reference module = Reference::steal(PyImport_ImportModule("torch._C"));
  if (!module) return PyErr_Clear();
  exchange_all(module.get(), kEach);
  watch_items(module.get());
  watch_saved(module.get());
  watch_frame_switch(module.get());
  watch_graphs();
}

void stop_watching_escapes() {
  restore_all();
  stop_watching_items();
  stop_watching_saved();
  stop_watching_graphs();
  if (g_frame_switch != nullptr && g_frame_switch->ml_meth == watched_frame_switch) {
    g_frame_switch->ml_meth = g_frame_switch_original;
  }
}

}  // namespace plimsoll::libtorch
