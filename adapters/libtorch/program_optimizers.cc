// Finds the steps of torch's own optimizers in a C++ program. The functions at the end take the
// place of those of libtorch, because the dynamic linker looks into the program first; they call
// the latter.
#include <dlfcn.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <exception>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "attachment.h"
#include "cpp_holders.h"
#include "optimizer_steps.h"
#include "parameters.h"
#include "plimsoll_libtorch.h"
#include "stepping_optimizer.h"
#include "tagged_storages.h"
#include "tensors.h"

namespace plimsoll::libtorch {
namespace {

using torch::optim::Optimizer;

struct KnownOptimizer {
  TaggedStorages parameters;
  TaggedStorages state;
};

// Optimizers that died are not noticed: their entries are dropped with all others.
constexpr std::size_t kMostOptimizers = 256;

struct OptimizerSteps {
  std::mutex mutex;
  std::unordered_map<const Optimizer*, KnownOptimizer> known;
  SteppingOptimizer stepping;
  std::string error;
};

OptimizerSteps& optimizer_steps() {
  static Immortal<OptimizerSteps> steps;
  return steps.get();
}

thread_local int g_optimizer_depth = 0;

// Calls visit(parameter, "Net.fc.weight"), or "optimizer.param_groups[0][3]" for a parameter of no
// module that is known.
template <typename Visit>
void for_each_parameter(Optimizer& optimizer, Visit&& visit) {
  std::size_t group_number = 0;
  for (const auto& group : optimizer.param_groups()) {
    std::size_t number = 0;
    for (const at::Tensor& parameter : group.params()) {
      visit(parameter, group_number, number++);
    }
    ++group_number;
  }
}

void tag_parameters(Optimizer& optimizer, TaggedStorages& tagged) {
  tagged.begin_walk();
  for_each_parameter(
      optimizer, [&](const at::Tensor& tensor, std::size_t group, std::size_t number) {
        if (!tensor.defined()) return;
        if (tagged.has_news(tensor)) {
          Parameter parameter;
          if (!parameters().find(tensor, parameter)) {
            parameter.text = "optimizer.param_groups[" + std::to_string(group) + "][" +
                             std::to_string(number) + "]";
            parameter.name = detail::name_of(parameter.text);
            parameters().add(tensor, parameter);
          }
          tag_tensor(thread_state(), tensor, PLIMSOLL_ROLE_PARAMETER, parameter.name);
        }
        parameters().tag_gradient(thread_state(), tensor);
      });
  tagged.end_walk();
}

// Calls visit(name, tensor). L-BFGS has lists; the state of optimizers of the program is unknown.
template <typename Visit>
void for_each_state(const torch::optim::OptimizerParamState& state, Visit&& visit) {
  using namespace torch::optim;
  if (const auto* adam = dynamic_cast<const AdamParamState*>(&state)) {
    visit("exp_avg", adam->exp_avg());
    visit("exp_avg_sq", adam->exp_avg_sq());
    visit("max_exp_avg_sq", adam->max_exp_avg_sq());
  } else if (const auto* adamw = dynamic_cast<const AdamWParamState*>(&state)) {
    visit("exp_avg", adamw->exp_avg());
    visit("exp_avg_sq", adamw->exp_avg_sq());
    visit("max_exp_avg_sq", adamw->max_exp_avg_sq());
  } else if (const auto* sgd = dynamic_cast<const SGDParamState*>(&state)) {
    visit("momentum_buffer", sgd->momentum_buffer());
  } else if (const auto* rms = dynamic_cast<const RMSpropParamState*>(&state)) {
    visit("square_avg", rms->square_avg());
    visit("momentum_buffer", rms->momentum_buffer());
    visit("grad_avg", rms->grad_avg());
  } else if (const auto* adagrad = dynamic_cast<const AdagradParamState*>(&state)) {
    visit("sum", adagrad->sum());
  }
}

void tag_state(Optimizer& optimizer, TaggedStorages& tagged) {
  tagged.begin_walk();
  for_each_parameter(optimizer, [&](const at::Tensor& parameter, std::size_t, std::size_t) {
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) return;
    for_each_state(*found->second, [&](const char* name, const at::Tensor& tensor) {
      if (!tensor.defined() || !tagged.has_news(tensor)) return;
      tag_tensor(thread_state(), tensor, PLIMSOLL_ROLE_OPTIMIZER_STATE,
                 detail::name_of(parameters().name_text(parameter) + "." + name));
    });
  });
  tagged.end_walk();
}

// An error of the recording must not stop the training.
template <typename Action>
void attempt(Action&& action) noexcept {
  OptimizerSteps& steps = optimizer_steps();
  try {
    const std::lock_guard lock(steps.mutex);
    try {
      action(steps);
    } catch (const std::exception& problem) {
      steps.error = problem.what();
    }
  } catch (...) {
    return;  // no memory for the text
  }
}

}  // namespace

OptimizerStep::OptimizerStep(Optimizer& optimizer) noexcept : optimizer_(optimizer) {
  if (g_optimizer_depth++ > 0 || !g_attachment.is_on || detail::running_recorder() == nullptr) {
    return;
  }
  phase_.emplace();
  cpp_holders::find_at_exit();
  attempt([&](OptimizerSteps& steps) {
    if (steps.known.size() >= kMostOptimizers) steps.known.clear();
    tag_parameters(optimizer, steps.known[&optimizer].parameters);
  });
}

OptimizerStep::~OptimizerStep() {
  --g_optimizer_depth;
  if (!phase_) return;
  bool ends_step = false;
  attempt([&](OptimizerSteps& steps) {
    ends_step = steps.stepping.ends_step(&optimizer_);
    tag_state(optimizer_, steps.known[&optimizer_].state);
  });
  phase_.reset();
  if (ends_step) {
    detail::optimizer_step();
    plimsoll_libtorch_end_step();
  }
  cpp_holders::find_wanted_holders();
}

std::string OptimizerStep::take_error() {
  const std::lock_guard lock(optimizer_steps().mutex);
  return std::exchange(optimizer_steps().error, {});
}

namespace {

using Step = at::Tensor (*)(Optimizer*, Optimizer::LossClosure);

at::Tensor recorded_step(Step step, Optimizer& optimizer, Optimizer::LossClosure closure) {
  TORCH_CHECK(step != nullptr, "plimsoll: this torch has no step() for its optimizer");
  const OptimizerStep recorded(optimizer);
  return step(&optimizer, std::move(closure));
}

}  // namespace
}  // namespace plimsoll::libtorch

// Weak: a program that contains libtorch itself has the originals.
#define PLIMSOLL_STEP(Class, mangled)                                                      \
  __attribute__((weak)) at::Tensor torch::optim::Class::step(LossClosure closure) {        \
    static const auto kStep = reinterpret_cast<plimsoll::libtorch::Step>(                  \
        dlsym(RTLD_NEXT, "_ZN5torch5optim" mangled "4stepESt8functionIFN2at6TensorEvEE")); \
    return plimsoll::libtorch::recorded_step(kStep, *this, std::move(closure));            \
  }
PLIMSOLL_STEP(Adagrad, "7Adagrad")
PLIMSOLL_STEP(Adam, "4Adam")
PLIMSOLL_STEP(AdamW, "5AdamW")
PLIMSOLL_STEP(LBFGS, "5LBFGS")
PLIMSOLL_STEP(RMSprop, "7RMSprop")
PLIMSOLL_STEP(SGD, "3SGD")
#undef PLIMSOLL_STEP
