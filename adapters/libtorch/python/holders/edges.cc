#include "python/holders/edges.h"

#include <structmember.h>
#include <torch/csrc/Storage.h>

#include <array>
#include <cstring>

#include "python/holders/attributes.h"
#include "python/holders/graph_edges.h"
#include "python/holders/script_edges.h"
#include "python/interpreter_frame.h"
#include "python/objects.h"

namespace plimsoll::libtorch::holders {
namespace {

struct KnownType {
  PyTypeObject* type = nullptr;
  TypeUse use = TypeUse::kUnknown;
};
std::array<KnownType, 4096> g_types;

bool is_array_type(PyTypeObject* type) {
  for (; type != nullptr; type = type->tp_base) {
    if (std::strcmp(type->tp_name, "numpy.ndarray") == 0) return true;
  }
  return false;
}

bool is_subtype(PyTypeObject* type, void* base) {
  return base != nullptr && PyType_IsSubtype(type, static_cast<PyTypeObject*>(base)) != 0;
}

TypeUse find_use(PyTypeObject* type) {
  if (PyType_FastSubclass(type, Py_TPFLAGS_TYPE_SUBCLASS) != 0) return TypeUse::kType;
  if (is_subtype(type, THPVariableClass)) return TypeUse::kTensor;
  if (is_subtype(type, THPStorageClass)) return TypeUse::kStorage;
  if (is_function_type(type)) return TypeUse::kFunction;
  if (is_node_type(type)) return TypeUse::kNode;
  if (is_array_type(type)) return TypeUse::kArray;
  if (is_script_type(type)) return TypeUse::kScript;
  const bool is_collected = PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC) != 0;
  return is_collected && type->tp_traverse != nullptr ? TypeUse::kTraversed : TypeUse::kIgnored;
}

int visit(PyObject* object, void* references) {
  static_cast<References*>(references)->object(object);
  return 0;
}

void add(PyObject* object, References& references) {
  if (object != nullptr) references.object(object);
}

// Of a type, the collector traverses only those that the program has made.
void add_type(PyTypeObject* type, References& references) {
  if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) != 0) {
    if (Py_TYPE(type)->tp_traverse != nullptr) {
      Py_TYPE(type)->tp_traverse(reinterpret_cast<PyObject*>(type), visit, &references);
    }
    return;
  }
  add(type->tp_dict, references);
  add(type->tp_mro, references);
}

// The first members of numpy's array, the same in all its versions.
struct Array {
  PyObject_HEAD char* data;
  int dimensions;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  PyObject* base;
  PyObject* descriptor;
  int flags;
};
struct ArrayDescriptor {
  PyObject_HEAD PyTypeObject* type;
  char kind;
};
constexpr int kContiguous = 1;

void add_frame(InterpreterFrame* frame, References& references) {
#if PY_VERSION_HEX >= 0x030B0000
  for (PyObject* each : values_of(frame)) add(each, references);
  add(static_cast<PyObject*>(frame->locals), references);
  add(static_cast<PyObject*>(frame->function), references);
  add(static_cast<PyObject*>(frame->frame_object), references);
#else
  (void)frame;
  (void)references;
#endif
}

// Not the collector's traversal, which leaves out what C++ retains as well.
void add_tensor_object(PyObject* object, References& references) {
  auto* tensor = reinterpret_cast<THPVariable*>(object);
  for_each_attribute_source(object, [&](PyObject* each) { references.object(each); });
  add(tensor->backward_hooks, references);
  add(tensor->post_accumulate_grad_hooks, references);
  if (const at::Tensor* found = as_tensor(object)) {
    references.thing(found->unsafeGetTensorImpl(), Kind::kTensor);
  }
}

// Passes on what a part refers to.
class PartsToReferences final : public Parts {
 public:
  explicit PartsToReferences(References& references) : references_(references) {}
  void part(const void* target, Kind kind, Part /*what*/, const char* /*name*/) override {
    if (kind == Kind::kObject) {
      references_.object(static_cast<PyObject*>(const_cast<void*>(target)));
    } else {
      references_.thing(target, kind);
    }
  }

 private:
  References& references_;
};

void add_storage_object(PyObject* object, References& references) {
  const auto& storage = THPStorage_Unpack(object);
  if (storage) references.thing(storage.unsafeGetStorageImpl(), Kind::kStorage);
}

void add_object(PyObject* object, References& references) {
  switch (use_of(Py_TYPE(object))) {
    case TypeUse::kTensor:
      return add_tensor_object(object, references);
    case TypeUse::kStorage:
      return add_storage_object(object, references);
    case TypeUse::kType:
      return add_type(reinterpret_cast<PyTypeObject*>(object), references);
    case TypeUse::kArray:
      for_each_attribute_source(object, [&](PyObject* each) { references.object(each); });
      return for_each_of_array(object, [&](PyObject* each) { references.object(each); });
    case TypeUse::kNode: {
      PartsToReferences parts(references);
      return for_each_part_of_node_object(object, parts);
    }
    case TypeUse::kFunction: {
      PartsToReferences parts(references);
      for_each_attribute_source(object, [&](PyObject* each) { references.object(each); });
      return for_each_part_of_function(object, parts);
    }
    case TypeUse::kScript:
      for_each_script_tensor(object, [&](const c10::TensorImpl& tensor, const ScriptPlace&) {
        references.thing(&tensor, Kind::kTensor);
      });
      return;
    case TypeUse::kTraversed:
      if (PyObject_IS_GC(object) != 0) Py_TYPE(object)->tp_traverse(object, visit, &references);
      return;
    default:
      return;
  }
}

}  // namespace

PyObject* base_of_array(PyObject* array) { return reinterpret_cast<Array*>(array)->base; }

std::span<PyObject* const> objects_of_array(PyObject* object) {
  const auto& array = *reinterpret_cast<Array*>(object);
  const auto* descriptor = reinterpret_cast<ArrayDescriptor*>(array.descriptor);
  if (descriptor == nullptr || descriptor->kind != 'O' || array.base != nullptr) return {};
  if ((array.flags & kContiguous) == 0 || array.data == nullptr) return {};
  Py_ssize_t size = 1;
  for (int i = 0; i < array.dimensions; ++i) size *= array.shape[i];
  return {reinterpret_cast<PyObject* const*>(array.data), static_cast<std::size_t>(size)};
}

void forget_types() { g_types.fill({}); }

TypeUse use_of(PyTypeObject* type) {
  KnownType& known = g_types[(reinterpret_cast<std::uintptr_t>(type) >> 4U ^
                              reinterpret_cast<std::uintptr_t>(type) >> 16U) %
                             g_types.size()];
  if (known.type != type) known = {type, find_use(type)};
  return known.use;
}

void for_each_reference(const Entry& entry, References& references) {
  PartsToReferences parts(references);
  switch (entry.kind) {
    case Kind::kObject:
      return add_object(static_cast<PyObject*>(const_cast<void*>(entry.address)), references);
    case Kind::kFrame:
      return add_frame(static_cast<InterpreterFrame*>(const_cast<void*>(entry.address)),
                       references);
    case Kind::kTensor:
      return for_each_part_of_tensor(
          *static_cast<c10::TensorImpl*>(const_cast<void*>(entry.address)), parts);
    case Kind::kNode:
      return for_each_part_of_node(
          *static_cast<torch::autograd::Node*>(const_cast<void*>(entry.address)), parts);
    case Kind::kStorage:
      return;
  }
}

std::int64_t references_to(const Entry& entry) {
  switch (entry.kind) {
    case Kind::kObject:
      return Py_REFCNT(static_cast<PyObject*>(const_cast<void*>(entry.address))) -
             (entry.has(kPassed) ? 1 : 0);
    case Kind::kTensor:
      return uses_of_tensor(*static_cast<const c10::TensorImpl*>(entry.address));
    case Kind::kNode:
      return uses_of_node(*static_cast<torch::autograd::Node*>(const_cast<void*>(entry.address)));
    case Kind::kStorage:
      return uses_of_storage(*static_cast<const c10::StorageImpl*>(entry.address));
    case Kind::kFrame:
      return 0;
  }
  return 0;
}

}  // namespace plimsoll::libtorch::holders
