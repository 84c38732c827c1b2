// The extension module _plimsoll_torch: the functions that Python calls to attach, and the hooks
// that torch calls. Every hook returns None and suppresses errors, because a profiler must not stop
// the training. Hooks run no code of the program, so every error is an internal one.
#include <Python.h>
#include <torch/csrc/DynamicTypes.h>

#include <chrono>
#include <exception>
#include <unordered_map>
#include <unordered_set>

#include "overwrite.h"
#include "parameters.h"
#include "plimsoll_libtorch.h"
#include "python/escapes.h"
#include "python/frames.h"
#include "python/heap.h"
#include "python/holders/find.h"
#include "python/loaders.h"
#include "python/modules.h"
#include "python/native/attribution.h"
#include "python/object_parts.h"
#include "python/objects.h"
#include "python/optimizers.h"
#include "python/self_test.h"
#include "python/threads.h"
#include "tensors.h"
#include "uses.h"

namespace plimsoll::libtorch {
namespace {

// Runs a hook's body. No exception leaves it, neither of C++ nor of Python.
template <typename Body>
[[gnu::noinline]] PyObject* guarded(Body&& body) {
  if (is_attached()) {
    try {
      ThreadState& thread = thread_state();
      settle_operator(thread, PLIMSOLL_STACK_BASE);
      hold_seen_code(thread);
      body(thread);
    } catch (const std::exception&) {
      count_lost_detail();
    }
    PyErr_Clear();
  }
  Py_RETURN_NONE;
}

// ---- search of Python's heap --------------------------------------------------------------------

// Which borrowed memory a search records. A search that the clock starts meets data of the current
// step by chance, and would make equal runs differ. So it records only what an earlier one has met.
class BorrowedMemory {
 public:
  enum class Search : std::uint8_t { kAtOnce, kByClock };

  void begin(Search search) {
    search_ = search;
    ahead_ = delivered_ahead();
    std::erase_if(met_, [](const auto& entry) { return entry.second.expired(); });
  }
  bool is_recorded(const at::Tensor& tensor) {
    if (!is_new_borrowed(tensor)) return true;
    const c10::StorageImpl* storage = recorded_storage(tensor);
    if (ahead_.contains(storage)) return false;
    if (search_ == Search::kAtOnce) return true;
    return !met_.try_emplace(storage, weak_storage(tensor)).second;
  }
  void end() { ahead_.clear(); }
  void forget() { met_.clear(); }

 private:
  Search search_ = Search::kAtOnce;
  std::unordered_set<const c10::StorageImpl*> ahead_;
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> met_;
};
using Search = BorrowedMemory::Search;

BorrowedMemory& borrowed_memory() {
  static Immortal<BorrowedMemory> memory;
  return memory.get();
}

void adopt_tensor(ThreadState& thread, PyObject* object, bool has_gradient) {
  const at::Tensor* tensor = as_tensor(object);
  if (tensor == nullptr) return;
  if (borrowed_memory().is_recorded(*tensor)) tag_tensor(thread, *tensor, PLIMSOLL_ROLE_KNOWN, 0);
  const bool was_computed = tensor->unsafeGetTensorImpl()->requires_grad() && !tensor->is_leaf();
  if (was_computed) tag_tensor(thread, *tensor, PLIMSOLL_ROLE_ACTIVATION, 0);
  if (!has_gradient) return;
  // Not Tensor::grad(), which warns for a non-leaf.
  const at::Tensor& gradient = tensor->unsafeGetTensorImpl()->grad();
  if (gradient.defined()) tag_tensor(thread, gradient, PLIMSOLL_ROLE_KNOWN, 0);
}

void record_objects(ThreadState& thread, const HeapObjects& objects, Search search) {
  watch_new_classes();
  thread.described = {};  // that storage may have died, and another have its address
  borrowed_memory().begin(search);
  const bool has_gradients = may_read_gradients();
  for (const Reference& each : objects.tensors) adopt_tensor(thread, each.get(), has_gradients);
  borrowed_memory().end();
  for (const Reference& each : objects.modules) {
    modules().find_or_add(each.get());
    watch_calls_of(Py_TYPE(each.get()));  // fully_shard() gives a module a class of its own
  }
  modules().name_all(thread);
  // Modules come first, so that a parameter has its name in its module, not one from an optimizer.
  if (!objects.optimizers.empty()) modules().tag_changed(thread);
  for (const Reference& each : objects.optimizers) adopt_optimizer(thread, each.get());
}

// Records changes to known models and optimizers that no hook reports: a parameter whose `data` was
// replaced, a gradient that was assigned (as FSDP2 does in backward), a state that was loaded.
void record_known(ThreadState& thread) {
  modules().tag_changed(thread);
  tag_optimizers(thread);
  modules().tag_gradients(thread);
}

// Copies of modules (such as an average of the weights) register nothing and may never be called,
// so only a search finds them. A search runs after the first step, and then whenever its duration
// is at most a two-thousandth of the time since the last one.
class SurveyClock {
 public:
  using Clock = std::chrono::steady_clock;
  void run_if_due(ThreadState& thread) {
    run_if_due(thread, HeapPart::kAll, all_due_);
    run_if_due(thread, HeapPart::kNew, new_due_);
  }
  void restart() { all_due_ = new_due_ = {}; }

 private:
  static void run_if_due(ThreadState& thread, HeapPart part, Clock::time_point& due) {
    const Clock::time_point began = Clock::now();
    if (began < due) return;
    const bool is_first = due == Clock::time_point{};
    record_objects(thread, search_heap(part), is_first ? Search::kAtOnce : Search::kByClock);
    const Clock::time_point ended = Clock::now();
    due = ended + 2000 * (ended - began);
  }
  Clock::time_point all_due_{};
  Clock::time_point new_due_{};
};
SurveyClock g_survey_clock;

// ---- attaching --------------------------------------------------------------------------------

// Needs no memory.
void take_out_hooks() noexcept {
  plimsoll_libtorch_detach();
  end_native_attribution();
  stop_watching_calls();
  stop_watching_loaders();
  stop_watching_escapes();
  borrowed_memory().forget();
  modules().clear();
  forget_optimizers();
  forget_searches();
}

// attach(api address, mode, with stacks, module class, optimizer class, our folder,
//        notebook cells or None, uses, whether operators are attributed natively)
PyObject* attach(PyObject* /*self*/, PyObject* args) {
  unsigned long long api = 0;
  int mode = 0;
  int has_stacks = 0;
  PyObject *module_class = nullptr, *optimizer_class = nullptr;
  const char* folder = "";
  PyObject* cells = nullptr;
  int uses = 0;
  int is_native = 0;
  if (PyArg_ParseTuple(args, "KipO!O!sOip", &api, &mode, &has_stacks, &PyType_Type, &module_class,
                       &PyType_Type, &optimizer_class, &folder, &cells, &uses, &is_native) == 0) {
    return nullptr;
  }
  if (is_attached()) {
    PyErr_SetString(PyExc_RuntimeError, "the adapter is attached already");
    return nullptr;
  }
  auto* module_type = reinterpret_cast<PyTypeObject*>(module_class);
  const char* problem = nullptr;
  try {
    set_notebook_cells(PyDict_CheckExact(cells) != 0 ? cells : nullptr);
    if (!find_standard_library()) return nullptr;
    if (!prepare_searches(module_type, reinterpret_cast<PyTypeObject*>(optimizer_class))) {
      return nullptr;
    }
    find_parts_of_wrappers();
    g_attachment.has_python = true;
    g_attachment.stacks = has_stacks != 0 ? &python_stacks() : &kNoStacks;
    set_runner_folder(folder);
    g_attachment.api = reinterpret_cast<const plimsoll_recorder_api*>(api);
    if (is_native != 0 && mode == PLIMSOLL_LIBTORCH_FULL) {
      problem = prepare_native_attribution(cells != Py_None);
      if (problem == nullptr) problem = begin_native_attribution();
    }
    if (problem == nullptr) {
      problem = plimsoll_libtorch_attach(reinterpret_cast<const plimsoll_recorder_api*>(api),
                                         static_cast<plimsoll_libtorch_mode>(mode),
                                         static_cast<plimsoll_libtorch_uses>(uses));
    }
    if (problem == nullptr) {
      set_module_class(module_type);
      watch_calls(module_type);
      watch_loaders();
      watch_escapes();
    }
  } catch (const std::exception&) {
    take_out_hooks();
    problem = "not enough memory for its hooks";
  }
  if (problem != nullptr) {
    end_native_attribution();
    PyErr_SetString(PyExc_RuntimeError, problem);
    return nullptr;
  }
  g_survey_clock.restart();
  holders::begin_growth();
  Py_RETURN_NONE;
}

// native_problem(api address, notebook cells or None)
// -> None, or a sentence that says why operators cannot be attributed natively
PyObject* native_problem(PyObject* /*self*/, PyObject* args) {
  unsigned long long api = 0;
  PyObject* cells = nullptr;
  if (PyArg_ParseTuple(args, "KO", &api, &cells) == 0) return nullptr;
  if (!is_attached()) g_attachment.api = reinterpret_cast<const plimsoll_recorder_api*>(api);
  const char* problem = nullptr;
  try {
    problem = prepare_native_attribution(cells != Py_None);
  } catch (const std::exception&) {
    problem = "there is no memory to attribute operators natively";
  }
  if (problem != nullptr) return PyUnicode_FromString(problem);
  Py_RETURN_NONE;
}

PyObject* detach(PyObject* /*self*/, PyObject* /*args*/) {
  take_out_hooks();
  Py_RETURN_NONE;
}

// ---- hooks that torch calls ---------------------------------------------------------------------

// (module, name, child)
PyObject* module_registered(PyObject* /*self*/, PyObject* args) {
  return guarded([&](ThreadState& /*thread*/) {
    PyObject *parent = nullptr, *child = nullptr;
    const char* name = nullptr;
    if (PyArg_ParseTuple(args, "OsO", &parent, &name, &child) == 0) return;
    if (is_module(parent) && is_module(child)) modules().add_child(parent, name, child);
  });
}

// layer_of(module) -> its path among the layers; empty if it has none
PyObject* layer_of(PyObject* /*self*/, PyObject* module) {
  std::string path;
  PyObject* none = guarded([&](ThreadState& thread) {
    Module* known = is_module(module) ? modules().find_or_add(module) : nullptr;
    if (known != nullptr && modules().layer_of_called(thread, *known) != 0) path = known->path;
  });
  if (none == nullptr) return nullptr;
  Py_DECREF(none);
  return PyUnicode_DecodeUTF8(path.data(), static_cast<Py_ssize_t>(path.size()), "replace");
}

// (module, name, tensor): of parameters and of buffers
PyObject* tensor_registered(PyObject* /*self*/, PyObject* args) {
  return guarded([&](ThreadState& /*thread*/) {
    watch_new_classes();
    PyObject* module = PyTuple_Size(args) > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
    if (module != nullptr && is_module(module)) modules().find_or_add(module);
  });
}

// Full mode observes the scope that torch opens around a step, which ends even after an exception.
void set_lite_phase(ThreadState& thread, plimsoll_phase phase) {
  if (!g_attachment.has_operators) thread.context->phase = phase;
}

// (optimizer, args, kwargs)
PyObject* step_begins(PyObject* /*self*/, PyObject* args) {
  return guarded([&](ThreadState& thread) {
    watch_new_classes();
    observe_backward(thread);
    if (PyTuple_Size(args) > 0) before_step(thread, PyTuple_GET_ITEM(args, 0));
    set_lite_phase(thread, PLIMSOLL_PHASE_OPTIMIZER);
  });
}
int (*g_renew_cuda)() = nullptr;  // of the CUDA adapter, while attached; guarded by the GIL

PyObject* step_ends(PyObject* /*self*/, PyObject* args) {
  return guarded([&](ThreadState& thread) {
    set_lite_phase(thread, PLIMSOLL_PHASE_OTHER);
    if (g_renew_cuda != nullptr)
      g_renew_cuda();  // before the step's end is reported, so that its sums are right
    if (PyTuple_Size(args) == 0 || !after_step(thread, PyTuple_GET_ITEM(args, 0))) return;
    end_native_step();
    if (g_attachment.has_walks) g_survey_clock.run_if_due(thread);
    if (g_attachment.has_operators) holders::find_wanted_holders();
  });
}

// ---- functions that Plimsoll's Python code calls ------------------------------------------------

// survey("all" or "new"): tags every tensor in Python's heap, or the new ones since the last call,
// and what has changed in known models and optimizers.
PyObject* survey(PyObject* /*self*/, PyObject* part) {
  const bool is_all =
      PyUnicode_Check(part) != 0 && PyUnicode_CompareWithASCIIString(part, "all") == 0;
  return guarded([&](ThreadState& thread) {
    record_objects(thread, search_heap(is_all ? HeapPart::kAll : HeapPart::kNew), Search::kAtOnce);
    record_known(thread);
  });
}

// describe(): called right before a sample, tags what the hooks have not seen. Always searches new
// objects, and all objects only if that is due.
PyObject* describe(PyObject* /*self*/, PyObject* /*args*/) {
  return guarded([](ThreadState& thread) {
    if (g_renew_cuda != nullptr) g_renew_cuda();
    poll_foreign_storages(thread);
    record_objects(thread, search_heap(HeapPart::kNew), Search::kAtOnce);
    g_survey_clock.run_if_due(thread);
    record_known(thread);
    parameters().forget_dead();
  });
}

// take_over(storage, address): the recorder knows this storage of the CPU, at this address. Its
// free is reported from now on, or now, if it has moved.
PyObject* take_over(PyObject* /*self*/, PyObject* args) {
  return guarded([&](ThreadState& thread) {
    PyObject* object = nullptr;
    unsigned long long address = 0;
    if (PyArg_ParseTuple(args, "OK", &object, &address) == 0 || !torch::isStorage(object)) return;
    c10::StorageImpl& storage = *torch::createStorage(object).unsafeGetStorageImpl();
    const void* const data = storage._mutable_data_ptr_no_checks().get();
    if (reinterpret_cast<std::uintptr_t>(data) != address) {
      recorder().free(thread.context, kCpu, address);
    }
    if (data != nullptr) tag_storage(thread, storage, 0);
  });
}

PyObject* user_marks_steps(PyObject* /*self*/, PyObject* /*args*/) {
  return guarded([](ThreadState& thread) {
    leave_steps_to_user(thread);
    end_use_step();
    end_native_step();
    poll_foreign_storages(thread);
    if (g_attachment.has_operators) holders::find_wanted_holders();
  });
}

// describe_address() -> address of plimsoll_libtorch_describe_allocation, for the CUDA adapter
PyObject* describe_address(PyObject* /*self*/, PyObject* /*args*/) {
  return PyLong_FromUnsignedLongLong(
      reinterpret_cast<std::uintptr_t>(&plimsoll_libtorch_describe_allocation));
}

// overwriting(api address) -> api address: see overwrite.h
PyObject* overwriting_api(PyObject* /*self*/, PyObject* address) {
  const auto* api = reinterpret_cast<const plimsoll_recorder_api*>(
      static_cast<std::uintptr_t>(PyLong_AsUnsignedLongLong(address)));
  if (PyErr_Occurred() != nullptr) return nullptr;
  return PyLong_FromUnsignedLongLong(reinterpret_cast<std::uintptr_t>(overwriting(api)));
}

// report_cuda_tensors(wanted)
PyObject* report_cuda_tensors(PyObject* /*self*/, PyObject* is_wanted) {
  plimsoll_libtorch_report_cuda_tensors(PyObject_IsTrue(is_wanted));
  Py_RETURN_NONE;
}

// renew_cuda_by(address of plimsoll_libtorch_cuda_renew, or 0)
PyObject* renew_cuda_by(PyObject* /*self*/, PyObject* address) {
  const unsigned long long value = PyLong_AsUnsignedLongLong(address);
  if (PyErr_Occurred() != nullptr) return nullptr;
  g_renew_cuda = reinterpret_cast<int (*)()>(value);
  Py_RETURN_NONE;
}

// observe(wanted)
PyObject* observe(PyObject* /*self*/, PyObject* is_wanted) {
  plimsoll_libtorch_observe(PyObject_IsTrue(is_wanted));
  Py_RETURN_NONE;
}

// use_cheaper_mode(mode)
PyObject* use_cheaper_mode(PyObject* /*self*/, PyObject* mode) {
  const long number = PyLong_AsLong(mode);
  if (PyErr_Occurred() != nullptr) return nullptr;
  plimsoll_libtorch_see_less(static_cast<plimsoll_libtorch_mode>(number));
  Py_RETURN_NONE;
}

// begin_uses(mode): of a new recording
PyObject* begin_uses_anew(PyObject* /*self*/, PyObject* uses) {
  const long number = PyLong_AsLong(uses);
  if (PyErr_Occurred() != nullptr) return nullptr;
  plimsoll_libtorch_begin_uses(static_cast<plimsoll_libtorch_uses>(number));
  holders::begin_growth();
  return guarded([](ThreadState& /*thread*/) { watch_escapes(); });
}

PyObject* is_attached_now(PyObject* /*self*/, PyObject* /*args*/) {
  return PyBool_FromLong(is_attached() ? 1 : 0);
}

PyObject* steps(PyObject* /*self*/, PyObject* /*args*/) {
  return PyLong_FromUnsignedLongLong(steps_so_far());
}

// continue_steps(number of the last one)
PyObject* continue_step_count(PyObject* /*self*/, PyObject* number) {
  const unsigned long long value = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred() != nullptr) return nullptr;
  continue_steps(value);
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"attach", attach, METH_VARARGS, nullptr},
    {"begin_uses", begin_uses_anew, METH_O, nullptr},
    {"continue_steps", continue_step_count, METH_O, nullptr},
    {"describe_address", describe_address, METH_NOARGS, nullptr},
    {"describe", describe, METH_NOARGS, nullptr},
    {"detach", detach, METH_NOARGS, nullptr},
    {"find_holders", holders::find_holders, METH_VARARGS, nullptr},
    {"holders_as_python", holders::holders_as_python, METH_VARARGS, nullptr},
    {"is_attached", is_attached_now, METH_NOARGS, nullptr},
    {"layer_of", layer_of, METH_O, nullptr},
    {"module_registered", module_registered, METH_VARARGS, nullptr},
    {"native_problem", native_problem, METH_VARARGS, nullptr},
    {"observe", observe, METH_O, nullptr},
    {"overwriting", overwriting_api, METH_O, nullptr},
    {"renew_cuda_by", renew_cuda_by, METH_O, nullptr},
    {"use_cheaper_mode", use_cheaper_mode, METH_O, nullptr},
    {"self_test", self_test, METH_VARARGS, nullptr},
    {"step_begins", step_begins, METH_VARARGS, nullptr},
    {"step_ends", step_ends, METH_VARARGS, nullptr},
    {"survey", survey, METH_O, nullptr},
    {"steps", steps, METH_NOARGS, nullptr},
    {"take_over", take_over, METH_VARARGS, nullptr},
    {"report_cuda_tensors", report_cuda_tensors, METH_O, nullptr},
    {"tensor_registered", tensor_registered, METH_VARARGS, nullptr},
    {"user_marks_steps", user_marks_steps, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef g_module = {PyModuleDef_HEAD_INIT,
                        "_plimsoll_torch",
                        "Plimsoll's adapter for the installed torch.",
                        -1,
                        g_functions,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr};

}  // namespace
}  // namespace plimsoll::libtorch

PyMODINIT_FUNC PyInit__plimsoll_torch() { return PyModule_Create(&plimsoll::libtorch::g_module); }
