#include "generator/stack_table.h"

#include <algorithm>

namespace generator {
namespace {

Frame cpp(const std::string& name, const std::string& filename = "??") {
  return Frame{name, filename, 0};
}

std::vector<Frame> allocation_frames(const std::string& op) {
  const std::string arguments =
      "(c10::ArrayRef<c10::SymInt>, std::optional<c10::ScalarType>, std::optional<c10::Layout>, "
      "std::optional<c10::Device>, std::optional<bool>, std::optional<c10::MemoryFormat>)";
  return {
      cpp("torch::unwind::unwind()"),
      cpp("torch::CapturedTraceback::gather(bool, bool, bool)"),
      cpp("torch::cuda::(anonymous namespace)::gather_with_cpp()", "memory_snapshot.cpp"),
      cpp("c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(signed char, "
          "unsigned long, "
          "CUstream_st*)",
          "CUDACachingAllocator.cpp"),
      cpp("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**, signed "
          "char, unsigned long, "
          "CUstream_st*)",
          ""),
      cpp("c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned "
          "long)",
          ""),
      cpp("at::detail::empty_generic(c10::ArrayRef<long>, c10::Allocator*, c10::DispatchKeySet, "
          "c10::ScalarType, "
          "std::optional<c10::MemoryFormat>)"),
      cpp("at::detail::empty_cuda" + arguments),
      cpp("at::native::empty_cuda" + arguments),
      cpp("at::(anonymous namespace)::wrapper_CUDA_memory_format_empty" + arguments,
          "RegisterCUDA.cpp"),
      cpp("at::_ops::empty_memory_format::call" + arguments),
      cpp("at::(anonymous namespace)::wrapper_CUDA_" + op, "RegisterCUDA.cpp"),
      cpp("at::_ops::" + op + "::redispatch(c10::DispatchKeySet, at::Tensor const&)"),
      cpp("torch::autograd::VariableType::(anonymous namespace)::" + op, "VariableType_0.cpp"),
      cpp("at::_ops::" + op + "::call(at::Tensor const&)"),
  };
}

std::vector<Frame> interpreter_start() {
  return {
      Frame{"PyEval_EvalCode", "/usr/src/python/Python/ceval.c", 578},
      Frame{"run_mod", "/usr/src/python/Python/pythonrun.c", 1743},
      Frame{"_PyRun_SimpleFileObject", "/usr/src/python/Python/pythonrun.c", 433},
      Frame{"Py_BytesMain", "/usr/src/python/Modules/main.c", 767},
      cpp("__libc_start_main"),
      cpp("_start"),
  };
}

const std::vector<Frame>& interpreter_calls() {
  static const std::vector<Frame> frames = {
      Frame{"_PyEval_EvalFrameDefault", "/usr/src/python/Python/bytecodes.c", 2715},
      Frame{"_PyObject_FastCallDictTstate", "/usr/src/python/Objects/call.c", 144},
      Frame{"_PyObject_Call_Prepend", "/usr/src/python/Objects/call.c", 508},
      Frame{"slot_tp_call", "/usr/src/python/Objects/typeobject.c", 9015},
      Frame{"_PyObject_MakeTpCall", "/usr/src/python/Objects/call.c", 240},
      Frame{"_PyObject_Vectorcall", "/usr/src/python/Objects/call.c", 325},
  };
  return frames;
}

std::vector<Frame> engine_frames() {
  return {
      cpp("torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&,"
          " "
          "torch::autograd::Node*, torch::autograd::InputBuffer&, "
          "std::shared_ptr<torch::autograd::ReadyQueue> "
          "const&)"),
      cpp("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> "
          "const&)"),
      cpp("torch::autograd::Engine::thread_init(int, std::shared_ptr<torch::autograd::ReadyQueue> "
          "const&, bool)"),
      cpp("torch::autograd::python::PythonEngine::thread_init(int, "
          "std::shared_ptr<torch::autograd::ReadyQueue> "
          "const&, bool)"),
      cpp("execute_native_thread_routine", "thread48.o"),
      cpp("__clone"),
  };
}

// Distributes `fillers` interpreter frames evenly among the Python frames.
std::vector<Frame> interleave(const std::vector<Frame>& python, size_t fillers) {
  std::vector<Frame> result;
  for (size_t i = 0; i < python.size(); ++i) {
    result.push_back(python[i]);
    const size_t share = fillers / python.size() + (i < fillers % python.size() ? 1 : 0);
    for (size_t k = 0; k < share; ++k)
      result.push_back(interpreter_calls()[k % interpreter_calls().size()]);
  }
  return result;
}

}  // namespace

FrameId StackTable::intern(const Frame& frame) {
  const auto [where, is_new] = frame_ids_.emplace(frame, static_cast<FrameId>(frames_.size()));
  if (is_new) frames_.push_back(frame);
  return where->second;
}

SiteId StackTable::add(const std::vector<Frame>& stack) {
  std::vector<FrameId> ids;
  for (const Frame& frame : stack) ids.push_back(intern(frame));
  const auto [where, is_new] = sites_.emplace(ids, static_cast<SiteId>(stacks_.size()));
  if (is_new) stacks_.push_back(ids);
  return where->second;
}

SiteId StackTable::python_site(const std::string& op, const std::vector<Frame>& python) {
  std::vector<Frame> head = allocation_frames(op);
  head.push_back(cpp("torch::autograd::THPVariable_" + op + "(_object*, _object*, _object*)",
                     "python_torch_functions_2.cpp"));
  std::vector<Frame> tail = interpreter_start();
  size_t fillers = 3 * python.size();
  if (depth_ != 0) {
    const size_t room = depth_ > python.size() ? depth_ - python.size() : 0;
    tail.resize(std::min(tail.size(), room / 4));
    head.resize(std::min(head.size(), room - tail.size()));
    fillers = room - tail.size() - head.size();
  }
  std::vector<Frame> stack = head;
  for (const Frame& frame : interleave(python, fillers)) stack.push_back(frame);
  stack.insert(stack.end(), tail.begin(), tail.end());
  if (depth_ != 0 && stack.size() > depth_) stack.resize(depth_);
  return add(stack);
}

SiteId StackTable::backward_site(const std::string& node, const std::string& op) {
  std::vector<Frame> stack = allocation_frames(op);
  stack.push_back(cpp("torch::autograd::generated::" + node +
                      "::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)"));
  stack.push_back(cpp(
      "torch::autograd::Node::operator()(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)",
      ""));
  const std::vector<Frame> engine = engine_frames();
  stack.insert(stack.end(), engine.begin(), engine.end());
  if (depth_ != 0 && stack.size() > depth_) stack.resize(depth_);
  for (size_t i = 0; depth_ != 0 && stack.size() < depth_; ++i) {
    stack.push_back(
        cpp("torch::autograd::Node::operator()", "function_" + std::to_string(i % 8) + ".cpp"));
  }
  return add(stack);
}

}  // namespace generator
