#include "python/self_test.h"

#include <ATen/record_function.h>

#include <exception>
#include <memory>

#include "cpu_allocator.h"
#include "python/frames.h"
#include "python/interpreter_frame.h"
#include "python/objects.h"
#include "tensors.h"

namespace plimsoll::libtorch {
namespace {

int g_observed = 0;

std::unique_ptr<at::ObserverContext> observe_one(const at::RecordFunction& /*record*/) {
  ++g_observed;
  return nullptr;
}

bool operators_are_observed() {
  const at::CallbackHandle handle = at::addGlobalCallback(
      at::RecordFunctionCallback(observe_one).scopes({at::RecordScope::USER_SCOPE}));
  g_observed = 0;
  {
    RECORD_USER_SCOPE("plimsoll");
  }
  at::removeCallback(handle);
  return g_observed == 1;
}

// The layout of at::RecordFunction depends on how torch was compiled (adapter.cc).
const c10::TensorImpl* g_argument = nullptr;
bool g_is_argument_seen = false;

std::unique_ptr<at::ObserverContext> observe_argument(const at::RecordFunction& record) {
  const auto inputs = record.inputs();
  g_is_argument_seen |=
      inputs.size() == 2 && inputs[0].isTensor() && inputs[0].unsafeToTensorImpl() == g_argument;
  return nullptr;
}

bool arguments_are_seen(const at::Tensor& tensor) {
  const at::CallbackHandle handle =
      at::addGlobalCallback(at::RecordFunctionCallback(observe_argument)
                                .needsInputs(true)
                                .scopes({at::RecordScope::FUNCTION}));
  g_argument = tensor.unsafeGetTensorImpl();
  g_is_argument_seen = false;
  tensor.sum();  // sum(self, dtype)
  at::removeCallback(handle);
  return g_is_argument_seen;
}

bool blocks_are_seen() {
  c10::Allocator* before = c10::GetAllocator(c10::DeviceType::CPU);
  if (!install_cpu_allocator()) return false;
  bool is_seen = false;
  {
    const c10::DataPtr block = c10::GetAllocator(c10::DeviceType::CPU)->allocate(4096);
    is_seen = block.get() != nullptr && is_recorded_deleter(block.get_deleter());
  }
  remove_cpu_allocator();
  return is_seen && c10::GetAllocator(c10::DeviceType::CPU) == before;
}

bool tensors_are_understood(PyObject* object, unsigned long long address) {
  const at::Tensor* tensor = as_tensor(object);
  c10::StorageImpl* storage = tensor == nullptr ? nullptr : recorded_storage(*tensor);
  return storage != nullptr &&
         reinterpret_cast<std::uintptr_t>(storage->_mutable_data_ptr_no_checks().get()) == address;
}

bool frames_are_understood(int line) {
  PyThreadState* thread = PyGILState_GetThisThreadState();
  InterpreterFrame* frame = thread == nullptr ? nullptr : innermost_frame(thread);
  PythonFrame read{};
  while (frame != nullptr && !read_frame(frame, read)) frame = frame_before(frame);
  return frame != nullptr && PyCode_Check(reinterpret_cast<PyObject*>(read.code)) != 0 &&
         PyCode_Addr2Line(read.code, static_cast<int>(read.offset)) == line;
}

const char* problem(PyObject* tensor, unsigned long long address, int line) {
  if (c10::GetAllocator(c10::DeviceType::CPU)->raw_deleter() == nullptr) {
    return "the program has replaced torch's allocator";
  }
  if (!blocks_are_seen()) return "torch's allocations are not seen";
  if (!operators_are_observed()) return "torch's operators are not seen";
  if (!tensors_are_understood(tensor, address)) return "tensors look different in this torch";
  if (!arguments_are_seen(*as_tensor(tensor))) return "operators look different in this torch";
  if (!frames_are_understood(line)) return "frames look different in this Python";
  return nullptr;
}

}  // namespace

PyObject* self_test(PyObject* /*self*/, PyObject* args) {
  PyObject* tensor = nullptr;
  unsigned long long address = 0;
  int line = 0;
  if (PyArg_ParseTuple(args, "OKi", &tensor, &address, &line) == 0) return nullptr;
  const char* text = nullptr;
  try {
    text = problem(tensor, address, line);
  } catch (const std::exception&) {
    text = "there is no memory to test the adapter";
  }
  if (text == nullptr) Py_RETURN_NONE;
  return PyUnicode_FromString(text);
}

}  // namespace plimsoll::libtorch
