#include "python/holders/names.h"

#include <frameobject.h>

#include <cstring>
#include <utility>

#include "python/holders/attributes.h"
#include "python/holders/edges.h"
#include "python/holders/graph_edges.h"
#include "python/holders/python_dicts.h"
#include "python/holders/script_edges.h"
#include "python/holders/texts.h"

namespace plimsoll::libtorch::holders {
namespace {

bool is_type(PyObject* object, const char* name) {
  return std::strcmp(Py_TYPE(object)->tp_name, name) == 0;
}

void show(const VisitName& visit, PyObject* target, plimsoll_link_kind kind, std::string name) {
  if (target != nullptr) visit(target, {.kind = kind, .name = std::move(name)});
}
void pass(const VisitName& visit, const void* target, Role role = Role::kNone,
          PyObject* owner = nullptr) {
  if (target != nullptr) visit(target, {.is_shown = false, .role = role, .owner = owner});
}
// A cell or a plain value.
void show_variable(const VisitName& visit, PyObject* target, plimsoll_link_kind kind,
                   std::string name) {
  if (target == nullptr) return;
  if (PyCell_Check(target) != 0) {
    visit(target, {.kind = kind, .name = std::move(name), .is_shown = false, .role = Role::kCell});
  } else {
    show(visit, target, kind, std::move(name));
  }
}

// ---- containers ---------------------------------------------------------------------------------

void name_element(const VisitName& visit, PyObject* target, std::string name) {
  if (target == nullptr) return;
  visit(target, {.kind = PLIMSOLL_LINK_ITEM, .name = std::move(name), .is_element = true});
}

// Of other keys, the text may come from the program's code.
std::string text_of_key(PyObject* key) {
  if (PyUnicode_Check(key) != 0) return text_of_string(key);
  if (PyLong_CheckExact(key) == 0) return "<" + name_of_type(Py_TYPE(key)) + ">";
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(key, &overflow);
  return overflow == 0 ? std::to_string(number) : "<int>";
}

void name_items(PyObject* dict, const VisitName& visit) {
  for_each_item(dict, [&](PyObject* key, PyObject* value) {
    name_element(visit, value, text_of_key(key));
    visit(key, {.kind = PLIMSOLL_LINK_ITEM, .name = "key", .is_element = true});
  });
}

// Elements without an index that means something, or in an order that only the traversal knows.
struct Elements {
  const VisitName& visit;
  std::size_t next = 0;
  bool has_indices = false;
};
int visit_element(PyObject* target, void* argument) {
  auto& elements = *static_cast<Elements*>(argument);
  const std::size_t index = elements.next++;
  if (is_walked(target)) {
    name_element(elements.visit, target, elements.has_indices ? std::to_string(index) : "");
  }
  return 0;
}
void name_elements(PyObject* object, const VisitName& visit, bool has_indices) {
  Elements elements{visit, 0, has_indices};
  if (Py_TYPE(object)->tp_traverse != nullptr && PyObject_IS_GC(object) != 0) {
    Py_TYPE(object)->tp_traverse(object, visit_element, &elements);
  }
}
int visit_other(PyObject* target, void* argument) {
  (*static_cast<const VisitName*>(argument))(target, {});
  return 0;
}

// ---- objects with attributes --------------------------------------------------------------------

bool is_dict_of_hooks(const std::string& name, PyObject* value) {
  return PyDict_Check(value) != 0 && name.find("_hooks") != name.npos;
}

// torch.nn.Module keeps its parts in three dicts.
bool is_part_of_module(const std::string& name, PyObject* value) {
  return PyDict_Check(value) != 0 &&
         (name == "_modules" || name == "_parameters" || name == "_buffers");
}

void name_attribute(const VisitName& visit, std::string name, PyObject* value) {
  if (value == nullptr) return;
  if (is_part_of_module(name, value)) return pass(visit, value, Role::kParts);
  if (is_dict_of_hooks(name, value)) return show(visit, value, PLIMSOLL_LINK_HOOK, std::move(name));
  show(visit, value, PLIMSOLL_LINK_ATTRIBUTE, std::move(name));
}

void name_parts(PyObject* dict, const VisitName& visit) {
  for_each_item(dict, [&](PyObject* key, PyObject* value) {
    show(visit, value, PLIMSOLL_LINK_PART, text_of_key(key));
  });
}

void name_attributes_in_dict(PyObject* dict, const VisitName& visit) {
  for_each_item(dict, [&](PyObject* key, PyObject* value) {
    name_attribute(visit, text_of_key(key), value);
    visit(key, {.kind = PLIMSOLL_LINK_OTHER, .name = "key"});
  });
}

void name_attributes(PyObject* object, const VisitName& visit) {
  const InlineValues values = inline_values_of(object);
  for (std::size_t i = 0; i < values.count; ++i) {
    if (values.values[i] != nullptr) {
      name_attribute(visit, text_of_string(values.name(i)), values.values[i]);
    }
  }
  pass(visit, dict_of(object), Role::kAttributes);
  for_each_member(object,
                  [&](const char* name, PyObject* value) { name_attribute(visit, name, value); });
}

// ---- functions and frames -----------------------------------------------------------------------

void name_function(PyObject* object, const VisitName& visit) {
  pass(visit, PyFunction_GET_CLOSURE(object), Role::kClosure, object);
  pass(visit, PyFunction_GET_DEFAULTS(object), Role::kDefaults, object);
  pass(visit, PyFunction_GET_KW_DEFAULTS(object), Role::kKeywords);
}

PyCodeObject* code_of(PyObject* function) {
  return reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
}

std::string text_at(PyObject* names, Py_ssize_t i) {
  if (names == nullptr || PyTuple_Check(names) == 0 || i < 0 || i >= PyTuple_GET_SIZE(names)) {
    return "";
  }
  return text_of_string(PyTuple_GET_ITEM(names, i));
}

void name_closure(PyObject* cells, PyObject* function, const VisitName& visit) {
  PyCodeObject* code = code_of(function);
#if PY_VERSION_HEX >= 0x030B0000
  PyObject* names = code->co_localsplusnames;
  const Py_ssize_t first = code->co_nlocalsplus - code->co_nfreevars;
#else
  PyObject* names = code->co_freevars;
  const Py_ssize_t first = 0;
#endif
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cells); ++i) {
    show_variable(visit, PyTuple_GET_ITEM(cells, i), PLIMSOLL_LINK_CLOSURE,
                  text_at(names, first + i));
  }
}

void name_defaults(PyObject* values, PyObject* function, const VisitName& visit) {
  PyCodeObject* code = code_of(function);
#if PY_VERSION_HEX >= 0x030B0000
  PyObject* names = code->co_localsplusnames;
#else
  PyObject* names = code->co_varnames;
#endif
  const Py_ssize_t first = code->co_argcount - PyTuple_GET_SIZE(values);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i) {
    show(visit, PyTuple_GET_ITEM(values, i), PLIMSOLL_LINK_DEFAULT, text_at(names, first + i));
  }
}

#if PY_VERSION_HEX >= 0x030B0000
void name_frame(InterpreterFrame* frame, const VisitName& visit) {
  if (frame == nullptr) return;
  pass(visit, static_cast<PyObject*>(frame->locals), Role::kLocals);
  Py_ssize_t i = 0;
  for (PyObject* value : values_of(frame)) {
    const bool is_local = i < frame->code->co_nlocalsplus;
    const std::string name = is_local ? text_at(frame->code->co_localsplusnames, i) : "";
    show_variable(visit, value, PLIMSOLL_LINK_LOCAL, name);
    ++i;
  }
}
void name_frame_object(PyObject* object, const VisitName& visit) {
  name_frame(frame_of_object(object), visit);
}
void name_generator(PyObject* object, const VisitName& visit) {
  name_frame(frame_of_generator(object), visit);
}
#else
void name_frame_object(PyObject* object, const VisitName& visit) {
  auto* frame = reinterpret_cast<PyFrameObject*>(object);
  PyCodeObject* code = frame->f_code;
  Py_ssize_t i = 0;
  for (PyObject* names : {code->co_varnames, code->co_cellvars, code->co_freevars}) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); ++k, ++i) {
      show_variable(visit, frame->f_localsplus[i], PLIMSOLL_LINK_LOCAL, text_at(names, k));
    }
  }
}
void name_generator(PyObject* object, const VisitName& visit) {
  auto* frame = reinterpret_cast<PyGenObject*>(object)->gi_frame;
  if (frame != nullptr) name_frame_object(reinterpret_cast<PyObject*>(frame), visit);
  pass(visit, frame);
}
#endif

void name_exception(PyObject* object, const VisitName& visit) {
  const auto& error = *reinterpret_cast<PyBaseExceptionObject*>(object);
  if (error.traceback != nullptr) {
    visit(error.traceback, {.kind = PLIMSOLL_LINK_TRACEBACK, .role = Role::kTraceback});
  }
  show(visit, error.context, PLIMSOLL_LINK_ATTRIBUTE, "__context__");
  show(visit, error.cause, PLIMSOLL_LINK_ATTRIBUTE, "__cause__");
  show(visit, error.args, PLIMSOLL_LINK_ATTRIBUTE, "args");
}

void name_traceback(PyObject* object, const VisitName& visit) {
  const auto& traceback = *reinterpret_cast<PyTracebackObject*>(object);
  pass(visit, traceback.tb_frame);
  if (traceback.tb_next != nullptr) {
    visit(traceback.tb_next, {.kind = PLIMSOLL_LINK_TRACEBACK, .role = Role::kTraceback});
  }
}

// ---- torch --------------------------------------------------------------------------------------

class NamedParts final : public Parts {
 public:
  explicit NamedParts(const VisitName& visit) : visit_(visit) {}
  void part(const void* target, Kind kind, Part what, const char* name) override {
    switch (what) {
      case Part::kGradient:
        return visit_(target, {.kind = PLIMSOLL_LINK_GRADIENT});
      case Part::kGradFn:
        return visit_(target, {.kind = PLIMSOLL_LINK_GRAD_FN});
      case Part::kBase:
        return visit_(target, {.kind = PLIMSOLL_LINK_BASE});
      case Part::kHooks:
      case Part::kUnpackHook:
        return visit_(target, {.kind = PLIMSOLL_LINK_HOOK, .name = name});
      case Part::kSaved:
        return visit_(target, {.kind = PLIMSOLL_LINK_SAVED, .name = name});
      case Part::kVariable:
        return visit_(target, {.kind = PLIMSOLL_LINK_SAVED, .name = "variable"});
      case Part::kNext:
        return visit_(target, {.kind = PLIMSOLL_LINK_NODE});
      case Part::kMemory:
      case Part::kObject:
        return pass(visit_, target);
      case Part::kOther:
        if (kind == Kind::kNode) return visit_(target, {.kind = PLIMSOLL_LINK_GRAD_FN});
        return visit_(target, {});
    }
  }

 private:
  const VisitName& visit_;
};

void name_tensor(PyObject* object, const VisitName& visit) {
  const auto* tensor = reinterpret_cast<THPVariable*>(object);
  show(visit, tensor->backward_hooks, PLIMSOLL_LINK_HOOK, "_backward_hooks");
  show(visit, tensor->post_accumulate_grad_hooks, PLIMSOLL_LINK_HOOK,
       "_post_accumulate_grad_hooks");
  name_attributes(object, visit);
  if (const at::Tensor* found = as_tensor(object)) pass(visit, found->unsafeGetTensorImpl());
}

void name_script(PyObject* object, const VisitName& visit) {
  for_each_script_tensor(object, [&](const c10::TensorImpl& tensor, const ScriptPlace& place) {
    if (place.is_item) {
      visit(&tensor,
            {.kind = PLIMSOLL_LINK_ITEM, .attribute = place.attribute, .is_element = true});
    } else {
      visit(&tensor, {.kind = PLIMSOLL_LINK_ATTRIBUTE, .name = place.attribute});
    }
  });
}

// ---- all objects --------------------------------------------------------------------------------

// By the reference to it. Returns false if its own type decides.
bool name_by_role(PyObject* object, const ReferenceName& as, const VisitName& visit) {
  switch (as.role) {
    case Role::kParts:
      name_parts(object, visit);
      return true;
    case Role::kAttributes:
      name_attributes_in_dict(object, visit);
      return true;
    case Role::kLocals:
      for_each_item(object, [&](PyObject* key, PyObject* value) {
        show_variable(visit, value, PLIMSOLL_LINK_LOCAL, text_of_key(key));
      });
      return true;
    case Role::kKeywords:
      for_each_item(object, [&](PyObject* key, PyObject* value) {
        show(visit, value, PLIMSOLL_LINK_DEFAULT, text_of_key(key));
      });
      return true;
    case Role::kLocalDicts:
      for_each_item(object, [&](PyObject* /*key*/, PyObject* value) {
        pass(visit, value, Role::kAttributes);
      });
      return true;
    case Role::kClosure:
      name_closure(object, as.owner, visit);
      return true;
    case Role::kDefaults:
      name_defaults(object, as.owner, visit);
      return true;
    case Role::kCell:
      show(visit, PyCell_GET(object), as.kind, as.name);
      return true;
    case Role::kTraceback:
      name_traceback(object, visit);
      return true;
    case Role::kNone:
      return false;
  }
  return false;
}

void name_local(PyObject* object, const VisitName& visit) {
  const VisitName as_dict = [&](const void* target, ReferenceName&& /*name*/) {
    auto* found = static_cast<PyObject*>(const_cast<void*>(target));
    if (PyDict_CheckExact(found) != 0) pass(visit, found, Role::kLocalDicts);
  };
  Py_TYPE(object)->tp_traverse(object, visit_other, const_cast<VisitName*>(&as_dict));
}

bool has_elements_only(PyObject* object) {
  return PyAnySet_Check(object) != 0 || is_type(object, "functools._lru_cache_wrapper");
}

void name_by_type(PyObject* object, const VisitName& visit) {
  if (PyDict_Check(object) != 0) name_items(object, visit);
  if (PyList_Check(object) != 0) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) {
      name_element(visit, PyList_GET_ITEM(object, i), std::to_string(i));
    }
  }
  if (PyTuple_Check(object) != 0) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      name_element(visit, PyTuple_GET_ITEM(object, i), std::to_string(i));
    }
  }
  if (PyFunction_Check(object) != 0) name_function(object, visit);
  if (PyFrame_Check(object) != 0) name_frame_object(object, visit);
  if (PyGen_CheckExact(object) != 0 || PyCoro_CheckExact(object) != 0 ||
      PyAsyncGen_CheckExact(object) != 0) {
    name_generator(object, visit);
  }
  if (PyExceptionInstance_Check(object) != 0) name_exception(object, visit);
  if (PyTraceBack_Check(object) != 0) name_traceback(object, visit);
  if (PyModule_Check(object) != 0) {
    return pass(visit, PyModule_GetDict(object), Role::kAttributes);
  }
  if (is_type(object, "_thread._local")) name_local(object, visit);
  name_attributes(object, visit);
  if (has_elements_only(object)) return name_elements(object, visit, false);
  if (is_type(object, "collections.deque")) return name_elements(object, visit, true);
  if (Py_TYPE(object)->tp_traverse != nullptr && PyObject_IS_GC(object) != 0) {
    Py_TYPE(object)->tp_traverse(object, visit_other, const_cast<VisitName*>(&visit));
  }
}

void name_object(PyObject* object, const ReferenceName& as, const VisitName& visit) {
  if (name_by_role(object, as, visit)) return;
  NamedParts parts(visit);
  switch (use_of(Py_TYPE(object))) {
    case TypeUse::kTensor:
      return name_tensor(object, visit);
    case TypeUse::kStorage:
      return pass(visit, THPStorage_Unpack(object).unsafeGetStorageImpl());
    case TypeUse::kNode:
      return for_each_part_of_node_object(object, parts);
    case TypeUse::kFunction:
      name_attributes(object, visit);
      return for_each_part_of_function(object, parts);
    case TypeUse::kArray:
      name_attributes(object, visit);
      if (PyObject* base = base_of_array(object)) {
        visit(base, {.kind = PLIMSOLL_LINK_BASE});
      }
      for (PyObject* each : objects_of_array(object)) name_element(visit, each, "");
      return;
    case TypeUse::kScript:
      return name_script(object, visit);
    case TypeUse::kType:
      pass(visit, reinterpret_cast<PyTypeObject*>(object)->tp_dict, Role::kAttributes);
      return name_by_type(object, visit);
    default:
      return name_by_type(object, visit);
  }
}

}  // namespace

void for_each_name(const Entry& entry, const ReferenceName& as, const VisitName& visit) {
  NamedParts parts(visit);
  void* address = const_cast<void*>(entry.address);
  switch (entry.kind) {
    case Kind::kObject:
      return name_object(static_cast<PyObject*>(address), as, visit);
    case Kind::kFrame:
#if PY_VERSION_HEX >= 0x030B0000
      name_frame(static_cast<InterpreterFrame*>(address), visit);
      show(visit, static_cast<PyObject*>(static_cast<InterpreterFrame*>(address)->function),
           PLIMSOLL_LINK_OTHER, "");
      pass(visit, static_cast<InterpreterFrame*>(address)->frame_object);
#endif
      return;
    case Kind::kTensor:
      return for_each_part_of_tensor(*static_cast<c10::TensorImpl*>(address), parts);
    case Kind::kNode:
      return for_each_part_of_node(*static_cast<torch::autograd::Node*>(address), parts);
    case Kind::kStorage:
      return;
  }
}

}  // namespace plimsoll::libtorch::holders
