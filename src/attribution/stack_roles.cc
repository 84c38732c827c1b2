#include "attribution/stack_roles.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/path_text.h"
#include "model/workspace_stack.h"

namespace plimsoll::attribution {
namespace {

using base::ends_with_path;

// The meaning of one frame. A stack has the first of these meanings that occurs among its frames.
enum class Hint : std::uint8_t {
  kWorkspace,
  kEngine,  // native frames of autograd
  kStateBegins,
  kOptimizer,
  kBackward,  // torch.autograd in Python
  kForward,
  kMove,
  kOptimizerMade,
  kMade,
  kData,
  kPython,
  kNothing
};

bool is_any(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

// The file and its folder: "optim/adagrad.py".
std::string lower_case_name(std::string_view file) {
  const std::size_t end = file.find_last_of("/\\");
  const bool has_folder = end != std::string_view::npos && end > 0;
  const std::size_t folder = has_folder ? file.find_last_of("/\\", end - 1) : end;
  std::string name(file.substr(folder + 1));
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Hint hint_of_native(std::string_view function) {
  if (model::is_workspace_frame(function)) return Hint::kWorkspace;
  const bool is_engine = contains(function, "torch::autograd::Engine::") ||
                         contains(function, "torch::autograd::python::PythonEngine::thread_init");
  return is_engine ? Hint::kEngine : Hint::kNothing;
}

// `function` may be qualified ("Adam._init_group") or not.
Hint hint_of(std::string_view file, std::string_view function) {
  const bool is_python = file.ends_with(".py") || file.starts_with("<") || file.starts_with("In[");
  if (!is_python) return hint_of_native(function);
  const std::string_view name = function.substr(function.rfind('.') + 1);
  if (name == "_init_group") return Hint::kStateBegins;
  // torch wraps the step of every optimizer, including third-party ones.
  if (ends_with_path(file, "torch/optim/optimizer.py") &&
      is_any(name, {"wrapper", "profile_hook_step", "_use_grad"})) {
    return Hint::kOptimizer;
  }
  if (ends_with_path(file, "torch/autograd/__init__.py") &&
      is_any(name, {"backward", "grad", "_make_grads"})) {
    return Hint::kBackward;
  }
  if (name == "forward") return Hint::kForward;
  if (ends_with_path(file, "torch/nn/modules/module.py")) {
    if (is_any(name, {"_call_impl", "_wrapped_call_impl"})) return Hint::kForward;
    if (is_any(name, {"_apply", "to", "cuda", "half", "float", "bfloat16"})) return Hint::kMove;
    if (name == "load_state_dict") return Hint::kMade;
  }
  if (name == "__init__") {
    return contains(lower_case_name(file), "optim") ? Hint::kOptimizerMade : Hint::kMade;
  }
  if (name == "reset_parameters" || ends_with_path(file, "torch/nn/init.py")) return Hint::kMade;
  if (ends_with_path(file, "torch/serialization.py")) return Hint::kMade;
  if (contains(file, "torch/utils/data/")) return Hint::kData;
  return Hint::kPython;
}

Activity activity_of(Hint hint) {
  switch (hint) {
    case Hint::kWorkspace:
      return Activity::kWorkspace;
    case Hint::kEngine:
    case Hint::kBackward:
    case Hint::kNothing:
      return Activity::kBackward;
    case Hint::kStateBegins:
      return Activity::kStateBegins;
    case Hint::kOptimizer:
      return Activity::kOptimizer;
    case Hint::kForward:
      return Activity::kForward;
    case Hint::kOptimizerMade:
      return Activity::kOptimizerMade;
    case Hint::kMove:
    case Hint::kMade:
      return Activity::kModelMade;
    case Hint::kData:
      return Activity::kData;
    case Hint::kPython:
      break;
  }
  return Activity::kProgram;
}

}  // namespace

std::vector<Activity> activities_of_stacks(const model::Trace& trace) {
  const model::StackTable& stacks = trace.stacks;
  std::vector<Hint> hints(stacks.frame_count());
  for (std::uint32_t row = 0; row < hints.size(); ++row) {
    const model::Frame& frame = stacks.frame(model::FrameId{row});
    hints[row] = hint_of(trace.strings[frame.file], trace.strings[frame.function]);
  }
  std::vector<Activity> activities(stacks.stack_count());
  for (std::uint32_t row = 0; row < activities.size(); ++row) {
    Hint best = Hint::kNothing;
    for (const model::FrameId id : stacks.frames(model::StackId{row})) {
      best = std::min(best, hints[id.index()]);
    }
    activities[row] = activity_of(best);
  }
  return activities;
}

}  // namespace plimsoll::attribution
