// The extension module _plimsoll_torch_cuda: the functions that Python calls to attach, and the
// callback into Python when memory runs out.
#include <Python.h>

#include <cstdint>
#include <exception>

#include "cuda_recording.h"
#include "library_workspaces.h"
#include "plimsoll_libtorch_cuda.h"
#include "torch_allocator.h"

namespace plimsoll::libtorch_cuda {
namespace {

PyObject* g_on_out_of_memory = nullptr;  // guarded by the GIL

// Runs as a pending call of the interpreter's main thread.
int raise_kept(void* error) {
  auto* value = static_cast<PyObject*>(error);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
  Py_DECREF(value);
  return -1;
}

// An exception that leaves the callback was raised by a signal handler. The allocator must return
// first, and torch raises its own error; this one follows as soon as Python runs again.
void keep_for_program() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  if (Py_AddPendingCall(&raise_kept, value) == 0) return;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
  Py_DECREF(value);
  PyErr_WriteUnraisable(g_on_out_of_memory);  // too many calls are pending
}

// Called on the failing thread, which may be one of autograd's. It may wait for the GIL, as torch's
// own observers do here, because no lock of the allocator is held.
void report_python(int device, const Failure& failure) {
  if (Py_IsInitialized() == 0) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  if (PyObject* callback = g_on_out_of_memory) {
    Py_INCREF(callback);
    const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
    PyObject* result = PyObject_CallFunction(
        callback, "iKKKKK", device, number(failure.requested_bytes), number(failure.segment_bytes),
        number(failure.free_bytes), number(failure.limit_bytes), number(failure.total_bytes));
    if (result == nullptr) keep_for_program();
    Py_XDECREF(result);
    Py_DECREF(callback);
  }
  PyErr_Restore(type, value, traceback);
  PyGILState_Release(state);
}

// problem() -> None, or why the allocator cannot be followed
PyObject* problem(PyObject* /*self*/, PyObject* /*args*/) {
  const char* text = allocator_problem();
  if (text == nullptr) Py_RETURN_NONE;
  return PyUnicode_FromString(text);
}

// attach(api address, address of the CPU adapter's describe function or 0, devices,
// on_out_of_memory)
PyObject* attach(PyObject* /*self*/, PyObject* args) {
  unsigned long long api = 0;
  unsigned long long describe = 0;
  int device_count = 0;
  PyObject* callback = nullptr;
  if (PyArg_ParseTuple(args, "KKiO", &api, &describe, &device_count, &callback) == 0) {
    return nullptr;
  }
  const char* text = plimsoll_libtorch_cuda_attach(
      reinterpret_cast<const plimsoll_recorder_api*>(api), device_count,
      reinterpret_cast<plimsoll_context* (*)(plimsoll_context*)>(describe));
  if (text != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, text);
    return nullptr;
  }
  Py_INCREF(callback);
  Py_XSETREF(g_on_out_of_memory, callback);
  set_out_of_memory_callback(&report_python);
  Py_RETURN_NONE;
}

PyObject* detach(PyObject* /*self*/, PyObject* /*args*/) {
  plimsoll_libtorch_cuda_detach();
  set_out_of_memory_callback(nullptr);
  Py_CLEAR(g_on_out_of_memory);
  Py_RETURN_NONE;
}

PyObject* renew(PyObject* /*self*/, PyObject* /*args*/) {
  return PyLong_FromLong(plimsoll_libtorch_cuda_renew());
}

PyObject* settings(PyObject* /*self*/, PyObject* /*args*/) {
  plimsoll_libtorch_cuda_report_settings();
  Py_RETURN_NONE;
}

// differs() -> the first device whose sums are not torch's own, or None
PyObject* differs(PyObject* /*self*/, PyObject* /*args*/) {
  const int device = plimsoll_libtorch_cuda_differs();
  if (device < 0) Py_RETURN_NONE;
  return PyLong_FromLong(device);
}

PyObject* is_attached(PyObject* /*self*/, PyObject* /*args*/) {
  return PyBool_FromLong(cuda_recording().is_on() ? 1 : 0);
}

// renew_address() -> address of plimsoll_libtorch_cuda_renew, for the CPU adapter
PyObject* renew_address(PyObject* /*self*/, PyObject* /*args*/) {
  return PyLong_FromUnsignedLongLong(
      reinterpret_cast<std::uintptr_t>(&plimsoll_libtorch_cuda_renew));
}

PyObject* row_of(int device) {
  const DeviceTracker& tracker = *cuda_recording().tracker(device);
  const TrackerCounts counts = tracker.counts();
  const auto [allocated, reserved] = tracker.allocated_and_reserved_bytes();
  const DeviceTotals torchs = totals_of(device);
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsK}", "events", number(counts.events), "proofs",
                       number(counts.proofs), "corrected", number(counts.corrected), "disproved",
                       number(counts.disproved), "seeded", number(counts.seeded), "allocated_bytes",
                       number(allocated), "reserved_bytes", number(reserved),
                       "torch_allocated_bytes", number(torchs.allocated_bytes),
                       "torch_reserved_bytes", number(torchs.reserved_bytes), "walks",
                       number(library_workspaces().walks()));
}

// state() -> for each device the counts, and both sides' sums
PyObject* state(PyObject* /*self*/, PyObject* /*args*/) {
  PyObject* list = PyList_New(0);
  try {
    for (int i = 0; list != nullptr && i < cuda_recording().device_count(); ++i) {
      PyObject* row = row_of(i);
      if (row == nullptr || PyList_Append(list, row) != 0) Py_CLEAR(list);
      Py_XDECREF(row);
    }
  } catch (const std::exception& error) {
    Py_CLEAR(list);
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return list;
}

PyMethodDef g_functions[] = {
    {"attach", attach, METH_VARARGS, nullptr},
    {"detach", detach, METH_NOARGS, nullptr},
    {"differs", differs, METH_NOARGS, nullptr},
    {"is_attached", is_attached, METH_NOARGS, nullptr},
    {"problem", problem, METH_NOARGS, nullptr},
    {"renew", renew, METH_NOARGS, nullptr},
    {"renew_address", renew_address, METH_NOARGS, nullptr},
    {"state", state, METH_NOARGS, nullptr},
    {"report_settings", settings, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef g_module = {PyModuleDef_HEAD_INIT,
                        "_plimsoll_torch_cuda",
                        "The CUDA adapter for the installed torch.",
                        -1,
                        g_functions,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr};

}  // namespace
}  // namespace plimsoll::libtorch_cuda

PyMODINIT_FUNC PyInit__plimsoll_torch_cuda() {
  return PyModule_Create(&plimsoll::libtorch_cuda::g_module);
}
