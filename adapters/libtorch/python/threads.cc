#include "python/threads.h"

#include <string>
#include <string_view>

#include "python/interpreter_frame.h"
#include "python/objects.h"

namespace plimsoll::libtorch {
namespace {

std::string& standard_library() {
  static Immortal<std::string> folder;  // with a trailing slash
  return folder.get();
}

bool is_in_standard_library(const PyCodeObject* code) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(code->co_filename, &size);
  if (text == nullptr) {
    PyErr_Clear();
    return false;
  }
  const std::string_view path(text, static_cast<std::size_t>(size));
  return path.starts_with(standard_library()) && path.find("-packages/") == path.npos;
}

bool waits(PyThreadState* thread) {
  PythonFrame frame{};
  for (InterpreterFrame* at = innermost_frame(thread); at != nullptr; at = frame_before(at)) {
    if (read_frame(at, frame)) return is_in_standard_library(frame.code);
  }
  return true;  // no Python code at all
}

}  // namespace

bool may_read_gradients() {
  PyThreadState* const own = PyThreadState_Get();
  for (PyThreadState* thread = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(own));
       thread != nullptr; thread = PyThreadState_Next(thread)) {
    if (thread != own && !waits(thread)) return false;
  }
  return true;
}

bool find_standard_library() {
  const Reference threading = Reference::steal(PyImport_ImportModule("threading"));
  const Reference file =
      Reference::steal(threading ? PyObject_GetAttrString(threading.get(), "__file__") : nullptr);
  const char* path = file ? PyUnicode_AsUTF8(file.get()) : nullptr;
  if (path == nullptr) return false;
  const std::string_view text = path;
  standard_library() = text.substr(0, text.rfind('/') + 1);
  return true;
}

}  // namespace plimsoll::libtorch
