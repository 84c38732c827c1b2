// What a link shows of the object it leads to.
#include <frameobject.h>

#include <cstring>

#include "python/holders/attributes.h"
#include "python/holders/edges.h"
#include "python/holders/graph_edges.h"
#include "python/holders/names.h"
#include "python/holders/python_dicts.h"
#include "python/holders/texts.h"

namespace plimsoll::libtorch::holders {
namespace {

bool has_type_name(PyObject* object, const char* name) {
  return std::strcmp(Py_TYPE(object)->tp_name, name) == 0;
}

void set_place(Description& into, const PyCodeObject* code, int line) {
  into.file = text_of_string(code->co_filename);
  into.line = line;
}

PyCodeObject* code_behind(PyObject* object) {
  if (PyMethod_Check(object) != 0) object = PyMethod_GET_FUNCTION(object);
  if (PyFunction_Check(object) == 0) return nullptr;
  return reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(object));
}

// Its own attribute, from where the interpreter keeps it; borrowed.
PyObject* attribute(PyObject* object, const char* name) {
  const InlineValues values = inline_values_of(object);
  for (std::size_t i = 0; i < values.count; ++i) {
    if (PyUnicode_CompareWithASCIIString(values.name(i), name) == 0) return values.values[i];
  }
  return find_item(dict_of(object), name);
}

std::uint64_t number_of(PyObject* object) {
  if (object == nullptr || PyLong_CheckExact(object) == 0) return 0;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 && number > 0 ? static_cast<std::uint64_t>(number) : 0;
}

// The first members of a deque.
struct Deque {
  PyObject_VAR_HEAD void* left;
  void* right;
  Py_ssize_t left_index;
  Py_ssize_t right_index;
  std::size_t state;
  Py_ssize_t limit;
};

// functools stores the limit only in the closure of `cache_parameters`.
std::uint64_t limit_of_cache(PyObject* cache) {
  PyObject* function = find_item(dict_of(cache), "cache_parameters");
  if (function == nullptr || PyFunction_Check(function) == 0) return 0;
  PyObject* cells = PyFunction_GET_CLOSURE(function);
  for (Py_ssize_t i = 0; cells != nullptr && i < PyTuple_GET_SIZE(cells); ++i) {
    PyObject* value = PyCell_GET(PyTuple_GET_ITEM(cells, i));
    if (value != nullptr && PyBool_Check(value) == 0 && PyLong_CheckExact(value) != 0) {
      return number_of(value);
    }
  }
  return 0;
}

struct CacheDict {
  Py_ssize_t entries = 0;
  bool has_links = false;
};
int visit_of_cache(PyObject* target, void* argument) {
  auto& found = *static_cast<CacheDict*>(argument);
  if (found.has_links || PyDict_CheckExact(target) == 0) return 0;
  for_each_item(target, [&](PyObject* /*key*/, PyObject* value) {
    found.has_links |= has_type_name(value, "functools._lru_list_elem");
  });
  if (found.has_links || found.entries == 0) found.entries = PyDict_GET_SIZE(target);
  return 0;
}

void measure_cache(PyObject* cache, Description& into) {
  CacheDict found;
  Py_TYPE(cache)->tp_traverse(cache, visit_of_cache, &found);
  into.length = static_cast<std::uint64_t>(found.entries);
  into.limit = limit_of_cache(cache);
}

bool is_queue(PyObject* object) {
  for (PyTypeObject* type = Py_TYPE(object); type != nullptr; type = type->tp_base) {
    if (std::strcmp(type->tp_name, "Queue") == 0) return true;
  }
  return false;
}

void measure_queue(PyObject* object, Description& into) {
  PyObject* entries = attribute(object, "queue");
  if (entries == nullptr) entries = attribute(object, "_queue");  // of asyncio
  if (entries == nullptr) return;
  if (PyList_Check(entries) != 0) {
    into.length = static_cast<std::uint64_t>(PyList_GET_SIZE(entries));
  } else if (has_type_name(entries, "collections.deque")) {
    into.length = static_cast<std::uint64_t>(Py_SIZE(entries));
  }
  into.limit = number_of(attribute(object, "maxsize"));
  if (into.limit == 0) into.limit = number_of(attribute(object, "_maxsize"));
}

void measure(PyObject* object, Description& into) {
  if (PyDict_Check(object) != 0) {
    into.length = static_cast<std::uint64_t>(PyDict_GET_SIZE(object));
  } else if (PyList_Check(object) != 0 || PyTuple_Check(object) != 0) {
    into.length = static_cast<std::uint64_t>(Py_SIZE(object));
  } else if (PyAnySet_Check(object) != 0) {
    into.length = static_cast<std::uint64_t>(PySet_GET_SIZE(object));
  } else if (has_type_name(object, "collections.deque")) {
    into.length = static_cast<std::uint64_t>(Py_SIZE(object));
    const Py_ssize_t limit = reinterpret_cast<Deque*>(object)->limit;
    into.limit = limit > 0 ? static_cast<std::uint64_t>(limit) : 0;
  } else if (has_type_name(object, "functools._lru_cache_wrapper")) {
    measure_cache(object, into);
  } else if (is_queue(object)) {
    measure_queue(object, into);
  }
}

void place_generator(PyObject* object, Description& into) {
#if PY_VERSION_HEX >= 0x030B0000
  InterpreterFrame* frame = frame_of_generator(object);
#else
  InterpreterFrame* frame = reinterpret_cast<PyGenObject*>(object)->gi_frame;
#endif
  PythonFrame read{};
  if (frame == nullptr || !read_frame(frame, read)) return;
  set_place(into, read.code, PyCode_Addr2Line(read.code, static_cast<int>(read.offset)));
}

void place_traceback(PyObject* object, Description& into) {
  const auto& traceback = *reinterpret_cast<PyTracebackObject*>(object);
  PyCodeObject* const code = code_of_traceback(traceback);
  if (code == nullptr) return;
  set_place(into, code, line_of_traceback(traceback, code));
  into.function = text_of_string(name_of_code(code));
}

void place(PyObject* object, Description& into) {
  if (const PyCodeObject* code = code_behind(object)) {
    set_place(into, code, code->co_firstlineno);
  } else if (PyGen_CheckExact(object) != 0 || PyCoro_CheckExact(object) != 0 ||
             PyAsyncGen_CheckExact(object) != 0) {
    place_generator(object, into);
  } else if (PyTraceBack_Check(object) != 0) {
    place_traceback(object, into);
  }
}

}  // namespace

std::string type_of(const Entry& entry) {
  switch (entry.kind) {
    case Kind::kObject:
      return name_of_type(Py_TYPE(static_cast<PyObject*>(const_cast<void*>(entry.address))));
    case Kind::kTensor: {
      PyObject* object = object_of_tensor(*static_cast<const c10::TensorImpl*>(entry.address));
      return object == nullptr ? "Tensor" : name_of_type(Py_TYPE(object));
    }
    case Kind::kNode:
      return name_of_node(*static_cast<const torch::autograd::Node*>(entry.address));
    case Kind::kFrame:
    case Kind::kStorage:
      return "";
  }
  return "";
}

Description describe(const Entry& entry) {
  Description description;
  description.type = type_of(entry);
  if (entry.kind == Kind::kObject) {
    auto* object = static_cast<PyObject*>(const_cast<void*>(entry.address));
    place(object, description);
    measure(object, description);
  }
  return description;
}

bool is_mutable_container(const Entry& entry) {
  if (entry.kind != Kind::kObject) return false;
  auto* object = static_cast<PyObject*>(const_cast<void*>(entry.address));
  return PyTuple_Check(object) == 0 && Py_IS_TYPE(object, &PyFrozenSet_Type) == 0;
}

}  // namespace plimsoll::libtorch::holders
