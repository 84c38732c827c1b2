#include "python/holders/roots.h"

#include <Python.h>

#include <string>
#include <string_view>

#include "python/frames.h"
#include "python/holders/attributes.h"
#include "python/holders/python_dicts.h"
#include "python/holders/texts.h"
#include "python/interpreter_frame.h"

namespace plimsoll::libtorch::holders {
namespace {

#if PY_VERSION_HEX >= 0x030B0000
constexpr Kind kRunningFrame = Kind::kFrame;
#else
constexpr Kind kRunningFrame = Kind::kObject;
#endif

void add_frame(Walk& walk, const void* frame, Kind kind, PyCodeObject* code, int line) {
  walk.add_root(frame, kind,
                {.kind = PLIMSOLL_LINK_FRAME,
                 .name = text_of_string(name_of_code(code)),
                 .code = code,
                 .line = line});
}

// The functions that the exception has left.
void add_left_frames(Walk& walk, PyObject* error) {
  if (error == nullptr || PyExceptionInstance_Check(error) == 0) return;
  PyObject* each = reinterpret_cast<PyBaseExceptionObject*>(error)->traceback;
  while (each != nullptr && PyTraceBack_Check(each) != 0) {
    const auto& traceback = *reinterpret_cast<PyTracebackObject*>(each);
    PyCodeObject* const code = code_of_traceback(traceback);
    if (code != nullptr && !is_own_code(code)) {
      add_frame(walk, traceback.tb_frame, Kind::kObject, code, line_of_traceback(traceback, code));
    }
    each = reinterpret_cast<PyObject*>(traceback.tb_next);
  }
}

void add_last_exceptions(Walk& walk, PyObject* sys) {
  for (const char* name : {"last_exc", "last_value", "last_traceback"}) {
    PyObject* object = find_item(sys, name);
    if (object == nullptr) continue;
    walk.add_root(object, Kind::kObject,
                  {.kind = PLIMSOLL_LINK_EXCEPTION, .name = std::string("sys.") + name});
  }
}

bool is_own_module(std::string_view name) {
  return name.starts_with("plimsoll") || name.starts_with("_plimsoll") || name == "pytest_plimsoll";
}

PyObject* dict_of_module(PyObject* module) {
  return PyModule_Check(module) != 0 ? PyModule_GetDict(module) : nullptr;
}

// The main module first: of chains of equal length, the one from there is the most useful.
void add_modules(Walk& walk, PyObject* modules) {
  for (const bool wants_main : {true, false}) {
    for_each_item(modules, [&](PyObject* key, PyObject* module) {
      const std::string name = text_of_string(key);
      if ((name == "__main__") != wants_main) return;
      PyObject* dict = dict_of_module(module);
      if (is_own_module(name)) {
        walk.block(module, Kind::kObject);
        walk.block(dict, Kind::kObject);
      } else {
        walk.add_root(dict, Kind::kObject, {.kind = PLIMSOLL_LINK_MODULE, .name = name});
      }
    });
  }
}

// Python code that waits for the engine of autograd.
bool runs_backward(const PyCodeObject* code) {
  return PyUnicode_CompareWithASCIIString(code->co_name, "_engine_run_backward") == 0 ||
         text_of_string(code->co_filename).ends_with("torch/autograd/__init__.py");
}

bool is_of_package(const PyCodeObject* code) {
  const std::string file = text_of_string(code->co_filename);
  return file.find("/site-packages/") != std::string::npos ||
         file.find("/dist-packages/") != std::string::npos;
}

// The functions of the program first: of chains of equal length, theirs are the most useful.
// Returns false if the thread runs a backward.
bool add_frames(Walk& walk, PyThreadState* thread) {
  bool is_between_backwards = true;
  PythonFrame read{};
  for (const bool wants_packages : {false, true}) {
    for (InterpreterFrame* frame = innermost_frame(thread); frame != nullptr;
         frame = frame_before(frame)) {
      if (!read_frame(frame, read) || is_of_package(read.code) != wants_packages) continue;
      if (is_own_code(read.code)) {
        walk.block(frame, kRunningFrame);
        continue;
      }
      if (runs_backward(read.code)) is_between_backwards = false;
      add_frame(walk, frame, kRunningFrame, read.code,
                PyCode_Addr2Line(read.code, static_cast<int>(read.offset)));
    }
  }
  return is_between_backwards;
}

void add_state(Walk& walk, PyThreadState* thread) {
  for (const _PyErr_StackItem* item = thread->exc_info; item != nullptr;
       item = item->previous_item) {
    walk.add_root(item->exc_value, Kind::kObject, {.kind = PLIMSOLL_LINK_EXCEPTION});
  }
  walk.add_root(thread->context, Kind::kObject,
                {.kind = PLIMSOLL_LINK_NATIVE, .name = "context variables"});
  walk.add_root(thread->dict, Kind::kObject,
                {.kind = PLIMSOLL_LINK_NATIVE, .name = "thread state"});
}

}  // namespace

bool add_roots(Walk& walk, PyObject* error) {
  PyObject* modules = PyImport_GetModuleDict();
  PyThreadState* const own = PyThreadState_Get();
  add_left_frames(walk, error);
  PyObject* sys = find_item(modules, "sys");
  if (sys != nullptr && PyModule_Check(sys) != 0) add_last_exceptions(walk, PyModule_GetDict(sys));
  add_modules(walk, modules);
  bool may_read_graphs = true;
  PyThreadState* thread = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(own));
  for (; thread != nullptr; thread = PyThreadState_Next(thread)) {
    if (!add_frames(walk, thread)) may_read_graphs = false;
    add_state(walk, thread);
  }
  return may_read_graphs;
}

}  // namespace plimsoll::libtorch::holders
