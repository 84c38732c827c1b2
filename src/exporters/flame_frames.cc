#include "exporters/flame_frames.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/path_text.h"
#include "model/user_line.h"

namespace plimsoll::exporters {
namespace {

using std::string_view_literals::operator""sv;

// Prefixes of functions that appear between the program's own frames: those of CPython, the C
// library, and the recorder that captured the stack.
constexpr std::array kPlumbing = {
    "Py"sv,
    "_Py"sv,
    "pymain_"sv,
    "pyrun_"sv,
    "run_mod"sv,
    "run_eval_code_obj"sv,
    "slot_"sv,
    "type_call"sv,
    "cfunction_"sv,
    "method_vector"sv,
    "vectorcall_"sv,
    "binary_op"sv,
    "ternary_op"sv,
    "subtype_dealloc"sv,
    "tupledealloc"sv,
    "_start"sv,
    "start_thread"sv,
    "__libc_"sv,
    "__clone"sv,
    "clone"sv,
    "pthread_"sv,
    "__xmknodat"sv,
    "execute_native_thread_routine"sv,
    "torch::unwind::"sv,
    "torch::CapturedTraceback::"sv,
    "torch::cuda::(anonymous namespace)::gather"sv,
};

// torch's wrappers between a call in the program and the called function.
struct Wrapper {
  std::string_view file;      // the end of the path, starting with "/"
  std::string_view function;  // the end of the name: Python 3.11 includes the class
};
constexpr std::array kWrappers = {
    Wrapper{"nn/modules/module.py", "_wrapped_call_impl"},
    Wrapper{"nn/modules/module.py", "_call_impl"},
    Wrapper{"utils/_contextlib.py", "decorate_context"},
    Wrapper{"optim/optimizer.py", "wrapper"},
    Wrapper{"optim/optimizer.py", "_use_grad"},
};

bool is_wrapper(std::string_view file, std::string_view function) {
  return std::ranges::any_of(kWrappers, [&](const Wrapper& wrapper) {
    return function.ends_with(wrapper.function) && base::ends_with_path(file, wrapper.file);
  });
}

bool is_plumbing(std::string_view file, std::string_view function) {
  const model::FrameOrigin origin = model::origin_of(file);
  if (origin == model::FrameOrigin::kTorch) return is_wrapper(file, function);
  if (origin != model::FrameOrigin::kNative) return false;
  return std::ranges::any_of(kPlumbing,
                             [&](std::string_view prefix) { return function.starts_with(prefix); });
}

}  // namespace

FlameFrames::FlameFrames(const model::Trace& trace)
    : trace_(trace), is_plumbing_(trace.stacks.frame_count()) {
  for (std::uint32_t row = 0; row < is_plumbing_.size(); ++row) {
    const model::Frame& frame = trace.stacks.frame(model::FrameId{row});
    is_plumbing_[row] = is_plumbing(trace.strings[frame.file], trace.strings[frame.function]);
  }
}

const std::vector<model::FrameId>& FlameFrames::root_first(model::StackId stack) {
  const auto frames = trace_.stacks.frames(stack);
  frames_.clear();
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    if (!is_plumbing_[frame->index()]) frames_.push_back(*frame);
  }
  if (frames_.empty()) frames_.assign(frames.rbegin(), frames.rend());
  return frames_;
}

}  // namespace plimsoll::exporters
