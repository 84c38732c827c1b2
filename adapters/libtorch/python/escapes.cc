// Watches the C functions behind Python methods: a method's PyMethodDef contains the function that
// CPython calls. Exchanging it changes no object that a program can see.
#include "python/escapes.h"

#include <torch/csrc/DynamicTypes.h>

#include <array>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "python/objects.h"
#include "uses.h"

namespace plimsoll::libtorch {
namespace {

// ---- memory that Python asks for --------------------------------------------------------------

void escape(PyObject* object) noexcept try {
  void* address = nullptr;
  if (const at::Tensor* tensor = as_tensor(object)) {
    const c10::TensorImpl& impl = *tensor->unsafeGetTensorImpl();
    if (impl.has_storage()) address = memory_of(impl);
  } else if (object != nullptr && torch::isStorage(object)) {
    const c10::Storage storage = torch::createStorage(object);
    c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
    if (impl != nullptr) address = impl->_mutable_data_ptr_no_checks().get();
  }
  if (address != nullptr) recorder().escape(reinterpret_cast<std::uintptr_t>(address));
} catch (const std::exception&) {
  count_lost_detail();
}

// What a watched function gives access to.
enum class Gives : std::uint8_t { kSelf, kArgument };

struct Watched {
  const char* owner;  // an attribute of torch._C; "": torch._C itself
  const char* name;
  Gives gives;
  PyMethodDef* definition = nullptr;
  PyCFunction original = nullptr;  // never forgotten: a call may still run
};

// torch.save() and pickle ask for a storage's data_ptr() or write it; print() calls tolist().
std::array g_watched = {
    Watched{"TensorBase", "numpy", Gives::kSelf},
    Watched{"TensorBase", "tolist", Gives::kSelf},
    Watched{"TensorBase", "data_ptr", Gives::kSelf},
    Watched{"", "_to_dlpack", Gives::kArgument},
    Watched{"", "_to_dlpack_versioned", Gives::kArgument},
    Watched{"StorageBase", "data_ptr", Gives::kSelf},
    Watched{"StorageBase", "_write_file", Gives::kSelf},
    Watched{"StorageBase", "_byteswap", Gives::kSelf},
    Watched{"StorageBase", "_share_cuda_", Gives::kSelf},
    Watched{"StorageBase", "_share_fd_cpu_", Gives::kSelf},
    Watched{"StorageBase", "_share_filename_cpu_", Gives::kSelf},
    Watched{"Generator", "set_state", Gives::kArgument},
};

// A function shares memory after it has moved it: both places have escaped.
template <std::size_t kIndex>
struct Watcher {
  static PyObject* subject(PyObject* self, PyObject* args) {
    if (g_watched[kIndex].gives == Gives::kSelf || args == nullptr) return self;
    if (PyTuple_Check(args) == 0) return args;
    return PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
  }
  template <typename Call>
  static PyObject* watch(PyObject* self, PyObject* args, Call call) {
    if (!is_attached()) return call();
    PyObject* const object = subject(self, args);
    escape(object);
    PyObject* const result = call();
    if (result != nullptr) escape(object);
    return result;
  }
  static PyObject* call(PyObject* self, PyObject* args) {
    return watch(self, args, [&] { return g_watched[kIndex].original(self, args); });
  }
  static PyObject* call_with_keywords(PyObject* self, PyObject* args, PyObject* keywords) {
    const auto original = reinterpret_cast<PyCFunctionWithKeywords>(g_watched[kIndex].original);
    return watch(self, args, [&] { return original(self, args, keywords); });
  }
};

// CPython stores all kinds of functions as one type.
template <std::size_t kIndex>
PyCFunction with_keywords() {
  return reinterpret_cast<PyCFunction>(
      reinterpret_cast<void (*)()>(Watcher<kIndex>::call_with_keywords));
}

template <std::size_t kIndex>
void exchange(PyMethodDef& definition) {
  Watched& watched = g_watched[kIndex];
  PyCFunction ours = nullptr;
  switch (definition.ml_flags & ~(METH_STATIC | METH_CLASS | METH_COEXIST)) {
    case METH_NOARGS:
    case METH_O:
    case METH_VARARGS:
      ours = Watcher<kIndex>::call;
      break;
    case METH_VARARGS | METH_KEYWORDS:
      ours = with_keywords<kIndex>();
      break;
    default:
      return;
  }
  if (definition.ml_meth == ours) return;
  watched.definition = &definition;
  watched.original = std::exchange(definition.ml_meth, ours);
}

PyMethodDef* definition_of(PyObject* object) {
  if (object == nullptr) return nullptr;
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

template <std::size_t... kIndices>
void exchange_all(PyObject* module, std::index_sequence<kIndices...> /*indices*/) {
  const auto exchange_one = [&]<std::size_t kIndex>() {
    const Watched& watched = g_watched[kIndex];
    const Reference owner =
        *watched.owner == '\0' ? Reference::borrow(module) : attribute(module, watched.owner);
    const Reference method = attribute(owner.get(), watched.name);
    if (PyMethodDef* definition = definition_of(method.get())) exchange<kIndex>(*definition);
  };
  (exchange_one.template operator()<kIndices>(), ...);
}

template <std::size_t... kIndices>
void restore_all(std::index_sequence<kIndices...> /*indices*/) {
  const auto restore_one = []<std::size_t kIndex>() {
    const Watched& watched = g_watched[kIndex];
    if (watched.definition == nullptr) return;
    PyCFunction& current = watched.definition->ml_meth;
    const bool is_ours = current == Watcher<kIndex>::call || current == with_keywords<kIndex>();
    if (is_ours) current = watched.original;
  };
  (restore_one.template operator()<kIndices>(), ...);
}

constexpr auto kEach = std::make_index_sequence<g_watched.size()>();

// ---- items of a storage -----------------------------------------------------------------------

PyWrapperDescrObject* g_item_method = nullptr;  // owned
binaryfunc g_item_original = nullptr;

PyObject* watched_item(PyObject* self, PyObject* index) {
  if (is_attached()) escape(self);
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

// ---- compiled graphs --------------------------------------------------------------------------

// Inductor's graphs run kernels without operators. Their one caller passes a list of arguments:
// inputs, and in a backward what the forward has saved.
PyTypeObject* g_graph_class = nullptr;  // owned
ternaryfunc g_graph_original = nullptr;

// Reports the addresses again at the end, since the graph may read them until then.
PyObject* watched_graph(PyObject* self, PyObject* args, PyObject* keywords) {
  if (!observes_uses()) return g_graph_original(self, args, keywords);
  std::vector<std::uint64_t> addresses;
  try {
    for_each_tensor(args, Path(""), [&](const Path& /*path*/, const at::Tensor& tensor) {
      const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
      if (!impl.has_storage() || memory_of(impl) == nullptr) return;
      addresses.push_back(reinterpret_cast<std::uintptr_t>(memory_of(impl)));
    });
  } catch (const std::exception&) {
    count_lost_detail();
  }
  const auto report = [&] {
    ThreadState* const thread = thread_state_or_null();
    if (thread == nullptr || !is_attached()) return;
    recorder().use(thread->context, addresses.data(), addresses.size());
    if (thread->context->op_instance == 0) recorder().end_uses(thread->context);
  };
  report();
  PyObject* const result = g_graph_original(self, args, keywords);
  report();
  return result;
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
  watch_frame_switch(module.get());
  watch_graphs();
}

void stop_watching_escapes() {
  restore_all(kEach);
  stop_watching_items();
  stop_watching_graphs();
  if (g_frame_switch != nullptr && g_frame_switch->ml_meth == watched_frame_switch) {
    g_frame_switch->ml_meth = g_frame_switch_original;
  }
}

}  // namespace plimsoll::libtorch
