#include "python/holders/graph_edges.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/python_hook.h>
#include <torch/csrc/autograd/python_saved_variable_hooks.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <cstring>
#include <string_view>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <vector>

#include "attachment.h"
#include "python/holders/python_dicts.h"
#include "tensor_parts.h"

namespace plimsoll::libtorch::holders {
namespace {

namespace autograd = torch::autograd;
using GraphNode = autograd::Node;
using autograd::SavedVariable;

// Reads a private member: SavedVariable has no accessor that takes no reference.
template <auto Member, typename Tag>
struct Access {
  friend auto member_of(Tag) { return Member; }
};
struct SavedData {
  friend auto member_of(SavedData);
};
struct SavedHooks {
  friend auto member_of(SavedHooks);
};
struct SavedGradFn {
  friend auto member_of(SavedGradFn);
};
struct SavedAccumulator {
  friend auto member_of(SavedAccumulator);
};
template struct Access<&SavedVariable::data_, SavedData>;
template struct Access<&SavedVariable::hooks_, SavedHooks>;
template struct Access<&SavedVariable::grad_fn_, SavedGradFn>;
template struct Access<&SavedVariable::grad_accumulator_, SavedAccumulator>;
struct PackedData {
  friend auto member_of(PackedData);
};
struct PackHook {
  friend auto member_of(PackHook);
};
struct UnpackHook {
  friend auto member_of(UnpackHook);
};
template struct Access<&autograd::PySavedVariableHooks::data_, PackedData>;
template struct Access<&autograd::PySavedVariableHooks::pack_hook_, PackHook>;
template struct Access<&autograd::PySavedVariableHooks::unpack_hook_, UnpackHook>;

// torch hides the type information of most of its classes from other libraries, so that only its
// names can be compared.
template <typename T>
bool is_named(const T& object, const char* mangled) {
  return std::strcmp(typeid(object).name(), mangled) == 0;
}

void add_object(Parts& parts, PyObject* object, Part what, const char* name = "") {
  if (object != nullptr) parts.part(object, Kind::kObject, what, name);
}
void add_tensor(Parts& parts, const at::Tensor& tensor, Part what, const char* name = "") {
  if (tensor.defined()) parts.part(tensor.unsafeGetTensorImpl(), Kind::kTensor, what, name);
}
template <typename Pointer>
void add_node(Parts& parts, const Pointer& node, Part what) {
  if (node) parts.part(static_cast<GraphNode*>(node.get()), Kind::kNode, what, "");
}

// ---- hooks --------------------------------------------------------------------------------------

void add_pre_hook(Parts& parts, const autograd::FunctionPreHook* hook, const char* name) {
  if (hook == nullptr) return;
  if (is_named(*hook, "N5torch8autograd17PyFunctionPreHookE")) {
    add_object(parts, static_cast<const autograd::PyFunctionPreHook*>(hook)->dict, Part::kHooks,
               name);
  } else if (is_named(*hook, "N5torch8autograd23PyFunctionTensorPreHookE")) {
    add_object(parts, static_cast<const autograd::PyFunctionTensorPreHook*>(hook)->dict,
               Part::kHooks, name);
  }
}

void add_hooks_of_node(GraphNode& node, Parts& parts) {
  for (const auto& hook : node.pre_hooks()) add_pre_hook(parts, hook.get(), "pre_hooks");
  for (const auto& hook : node.tensor_pre_hooks()) {
    add_pre_hook(parts, hook.get(), "tensor_pre_hooks");
  }
  for (const auto& hook : node.post_hooks()) {
    if (hook == nullptr || !is_named(*hook, "N5torch8autograd18PyFunctionPostHookE")) continue;
    add_object(parts, static_cast<const autograd::PyFunctionPostHook*>(hook.get())->dict,
               Part::kHooks, "post_hooks");
  }
}

// ---- saved variables ----------------------------------------------------------------------------

void add_saved(Parts& parts, const SavedVariable& saved, const char* name) {
  add_tensor(parts, saved.*member_of(SavedData{}), Part::kSaved, name);
  add_node(parts, saved.*member_of(SavedGradFn{}), Part::kOther);
  add_node(parts, saved.*member_of(SavedAccumulator{}), Part::kOther);
  const auto* hooks = (saved.*member_of(SavedHooks{})).get();
  if (hooks == nullptr || !is_named(*hooks, "N5torch8autograd20PySavedVariableHooksE")) return;
  const auto& python = static_cast<const autograd::PySavedVariableHooks&>(*hooks);
  add_object(parts, python.*member_of(PackedData{}), Part::kSaved, name);
  add_object(parts, python.*member_of(PackHook{}), Part::kUnpackHook, "pack_hook");
  add_object(parts, python.*member_of(UnpackHook{}), Part::kUnpackHook, "unpack_hook");
}

// The getters "_raw_saved_NAME" of a node's Python class are the only list of its saved variables.
struct SavedGetter {
  getter get;
  void* closure;
  const char* name;
  // Where the variable is in each node of this class, once a call has shown it; 0: not known yet,
  // or in a list outside the node.
  std::ptrdiff_t offset = 0;
};
using SavedGetters = std::vector<SavedGetter>;

std::unordered_map<std::string, PyTypeObject*>& node_types() {  // by the names of their classes
  static Immortal<std::unordered_map<std::string, PyTypeObject*>> types;
  return types.get();
}
std::unordered_map<std::type_index, SavedGetters>& saved_getters() {
  static Immortal<std::unordered_map<std::type_index, SavedGetters>> getters;
  return getters.get();
}

// A getter assumes the class of its node, so the name must be that of a class of torch itself.
SavedGetters find_getters(const GraphNode& node) {
  SavedGetters found;
  constexpr std::string_view kPrefix = "N5torch8autograd9generated";
  std::string_view mangled = typeid(node).name();
  if (!mangled.starts_with(kPrefix) || !mangled.ends_with('E')) return found;
  mangled = mangled.substr(kPrefix.size(), mangled.size() - kPrefix.size() - 1);
  mangled.remove_prefix(std::min(mangled.find_first_not_of("0123456789"), mangled.size()));
  const auto type = node_types().find(std::string(mangled));
  if (type == node_types().end()) return found;
  constexpr std::string_view kGetter = "_raw_saved_";
  for (const PyGetSetDef* each = type->second->tp_getset; each != nullptr && each->name != nullptr;
       ++each) {
    if (!std::string_view(each->name).starts_with(kGetter) || each->get == nullptr) continue;
    found.push_back({each->get, each->closure, each->name + kGetter.size()});
  }
  return found;
}

SavedGetters& getters_of(const GraphNode& node) {
  const std::type_index type = typeid(node);
  const auto found = saved_getters().find(type);
  if (found != saved_getters().end()) return found->second;
  return saved_getters().emplace(type, find_getters(node)).first->second;
}

// An object with a pointer to a SavedVariable of the node: torch._C._autograd.SavedTensor.
const SavedVariable* wrapped_by(PyObject* wrapper) {
  if (std::strcmp(Py_TYPE(wrapper)->tp_name, "torch._C._autograd.SavedTensor") != 0) return nullptr;
  const auto* instance = reinterpret_cast<pybind11::detail::instance*>(wrapper);
  if (!instance->simple_layout) return nullptr;
  return static_cast<const SavedVariable*>(instance->simple_value_holder[0]);
}

void add_wrapped(Parts& parts, PyObject* wrapper, const char* name) {
  if (const SavedVariable* saved = wrapped_by(wrapper)) add_saved(parts, *saved, name);
}

// Of a variable that is a member of the node; 0 if it cannot be one.
std::ptrdiff_t offset_of(const GraphNode& node, PyObject* wrapper) {
  constexpr std::ptrdiff_t kLargestNode = 4096;
  const auto* saved = reinterpret_cast<const char*>(wrapped_by(wrapper));
  const std::ptrdiff_t offset = saved == nullptr ? 0 : saved - reinterpret_cast<const char*>(&node);
  return offset > 0 && offset < kLargestNode ? offset : 0;
}

// Pointers to a node that own no reference. Nodes had shared pointers up to torch 2.10.
template <typename T>
void borrow(c10::intrusive_ptr<T>& pointer, GraphNode& node) {
  new (&pointer) c10::intrusive_ptr<T>(c10::intrusive_ptr<T>::reclaim(&node));
}
template <typename T>
void borrow(std::shared_ptr<T>& pointer, GraphNode& node) {
  new (&pointer) std::shared_ptr<T>(std::shared_ptr<void>(), &node);
}
template <typename T>
void give_back(c10::intrusive_ptr<T>& pointer) {
  pointer.release();
}
template <typename T>
void give_back(std::shared_ptr<T>& /*pointer*/) {}

// Calls a getter with a Python object of the node that no one else sees: one made by torch would
// live as long as the node.
class UnseenObject {
 public:
  explicit UnseenObject(GraphNode& node) {
    Py_SET_REFCNT(&object_.ob_base, 1);
    Py_SET_TYPE(&object_.ob_base, &PyBaseObject_Type);
    borrow(object_.cdata, node);
  }
  ~UnseenObject() { give_back(object_.cdata); }
  UnseenObject(const UnseenObject&) = delete;
  UnseenObject& operator=(const UnseenObject&) = delete;
  PyObject* get() { return reinterpret_cast<PyObject*>(&object_); }

 private:
  union {
    autograd::THPCppFunction object_;
  };
};

void call_getter(GraphNode& node, SavedGetter& getter, Parts& parts) {
  UnseenObject object(node);
  PyObject* value = getter.get(object.get(), getter.closure);
  if (value == nullptr) return PyErr_Clear();  // freed by a backward
  if (PyTuple_Check(value) != 0) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      add_wrapped(parts, PyTuple_GET_ITEM(value, i), getter.name);
    }
  } else {
    add_wrapped(parts, value, getter.name);
    getter.offset = offset_of(node, value);
  }
  Py_DECREF(value);
}

void add_saved_of_node(GraphNode& node, Parts& parts) {
  for (SavedGetter& each : getters_of(node)) {
    if (each.offset == 0) {
      call_getter(node, each, parts);
    } else {
      const char* place = reinterpret_cast<const char*>(&node) + each.offset;
      add_saved(parts, *reinterpret_cast<const SavedVariable*>(place), each.name);
    }
  }
}

// ---- Python objects of C++ objects --------------------------------------------------------------

// Since torch 2.10, a C++ object with more than one reference retains its Python object.
constexpr bool kRetainsObject = std::is_same_v<decltype(THPVariable::cdata), at::Tensor>;

template <typename Slot>
PyObject* object_in(const Slot& slot) {
  if constexpr (requires { slot.load_pyobj(); }) {
    return slot.load_pyobj();
  } else {
    return nullptr;
  }
}

template <typename T>
PyObject* object_of(const T& node) {
  if constexpr (requires { node.pyobj_slot(); }) {
    return object_in(*node.pyobj_slot());
  } else {
    return nullptr;
  }
}

template <typename T>
std::int64_t uses_of(T& node) {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, T>) {
    return static_cast<std::int64_t>(c10::raw::intrusive_ptr::use_count(&node));
  } else {
    return node.getptr().use_count() - 1;
  }
}

}  // namespace

bool is_function_type(PyTypeObject* type) { return PyType_IsSubtype(type, &THPFunctionType) != 0; }

bool is_node_type(PyTypeObject* type) {
  // The check of torch reads only the object's type.
  PyObject object{};
  Py_SET_TYPE(&object, type);
  return autograd::THPCppFunction_Check(&object);
}

PyObject* object_of_tensor(const c10::TensorImpl& tensor) {
  return object_in(*const_cast<c10::TensorImpl&>(tensor).pyobj_slot());
}

PyObject* object_of_node(const GraphNode& node) { return object_of(node); }

std::string name_of_node(const GraphNode& node) {
  PyObject* object = object_of_node(node);
  if (object != nullptr && is_function_type(Py_TYPE(object))) return Py_TYPE(object)->tp_name;
  std::string name = node.name();
  const std::size_t scope = name.find('<') == name.npos ? name.rfind("::") : name.npos;
  return scope == name.npos ? name : name.substr(scope + 2);
}

std::int64_t uses_of_tensor(const c10::TensorImpl& tensor) {
  return static_cast<std::int64_t>(
      c10::raw::intrusive_ptr::use_count(const_cast<c10::TensorImpl*>(&tensor)));
}
std::int64_t uses_of_storage(const c10::StorageImpl& storage) {
  return static_cast<std::int64_t>(
      c10::raw::intrusive_ptr::use_count(const_cast<c10::StorageImpl*>(&storage)));
}
std::int64_t uses_of_node(GraphNode& node) { return uses_of(node); }

void for_each_part_of_tensor(c10::TensorImpl& tensor, Parts& parts) {
  if (tensor.has_storage()) {
    c10::StorageImpl* storage = tensor.unsafe_storage().unsafeGetStorageImpl();
    if (storage != nullptr) parts.part(storage, Kind::kStorage, Part::kMemory, "");
  } else if (tensor.is_sparse() || tensor.is_sparse_csr()) {
    const at::Tensor self = at::Tensor(
        c10::intrusive_ptr<c10::TensorImpl,
                           c10::UndefinedTensorImpl>::unsafe_reclaim_from_nonowning(&tensor));
    for (const at::Tensor& part : parts_of(self)) add_tensor(parts, part, Part::kOther);
  }
  if (kRetainsObject && uses_of_tensor(tensor) > 1) {
    add_object(parts, object_of_tensor(tensor), Part::kObject);
  }
  const auto* meta = static_cast<const autograd::AutogradMeta*>(tensor.autograd_meta());
  if (meta == nullptr || !g_reads_graphs) return;
  add_tensor(parts, meta->grad_, Part::kGradient);
  add_node(parts, meta->grad_fn_, Part::kGradFn);
  for (const auto& hook : meta->hooks_) add_pre_hook(parts, hook.get(), "_backward_hooks");
  const auto* after = meta->post_acc_grad_hooks_.get();
  if (after != nullptr && is_named(*after, "N5torch8autograd32PyFunctionTensorPostAccGradHooksE")) {
    add_object(parts, static_cast<const autograd::PyFunctionTensorPostAccGradHooks*>(after)->dict,
               Part::kHooks, "_post_accumulate_grad_hooks");
  }
  if (!meta->is_view_) return;
  const auto& view = static_cast<const autograd::DifferentiableViewMeta&>(*meta);
  if (view.has_bw_view()) add_tensor(parts, view.get_backward_view().base_, Part::kBase);
  if (view.has_fw_view() && !view.shared_view_info()) {
    add_tensor(parts, view.get_forward_view().base_, Part::kBase);
  }
}

void for_each_part_of_node(GraphNode& node, Parts& parts) {
  for (const autograd::Edge& edge : node.next_edges()) add_node(parts, edge.function, Part::kNext);
  add_hooks_of_node(node, parts);
  if (is_named(node, "N5torch8autograd14AccumulateGradE")) {
    add_tensor(parts, static_cast<autograd::AccumulateGrad&>(node).variable, Part::kVariable);
  } else if (is_named(node, "N5torch8autograd10CopySlicesE")) {
    add_node(parts, static_cast<autograd::CopySlices&>(node).fn, Part::kNext);
  } else {
    add_saved_of_node(node, parts);
  }
  if (kRetainsObject && uses_of_node(node) > 1) {
    add_object(parts, object_of_node(node), Part::kObject);
  }
}

void for_each_part_of_node_object(PyObject* object, Parts& parts) {
  if (!g_reads_graphs) return;
  add_node(parts, reinterpret_cast<autograd::THPCppFunction*>(object)->cdata, Part::kOther);
}

void for_each_part_of_function(PyObject* object, Parts& parts) {
  const auto& function = *reinterpret_cast<THPFunction*>(object);
  for (PyObject* each : {function.needs_input_grad, function.to_save, function.non_differentiable,
                         function.dirty_tensors, function.compiled_autograd_backward_state,
                         function.saved_for_forward}) {
    add_object(parts, each, Part::kOther);
  }
  if (!g_reads_graphs) return;
  for (const SavedVariable& saved : function.saved_variables) add_saved(parts, saved, "tensors");
  if constexpr (kRetainsObject) add_node(parts, function.cdata, Part::kOther);
}

void find_node_types() {
  if (!node_types().empty()) return;
  PyObject* module = find_item(PyImport_GetModuleDict(), "torch._C");
  if (module == nullptr || PyModule_Check(module) == 0) return;
  module = find_item(PyModule_GetDict(module), "_functions");
  if (module == nullptr || PyModule_Check(module) == 0) return;
  for_each_item(PyModule_GetDict(module), [](PyObject* key, PyObject* value) {
    if (PyType_Check(value) == 0 || PyUnicode_CheckExact(key) == 0) return;
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(key, &size);
    if (text == nullptr) return PyErr_Clear();
    node_types().emplace(std::string(text, static_cast<std::size_t>(size)),
                         reinterpret_cast<PyTypeObject*>(value));
  });
}

}  // namespace plimsoll::libtorch::holders
