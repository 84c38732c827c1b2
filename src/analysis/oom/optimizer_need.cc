#include "analysis/oom/optimizer_need.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "base/path_text.h"
#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::analysis::oom {
namespace {

// Smaller state is a scalar, such as the number of the step.
constexpr std::uint64_t kLeastStateBytes = 64;

// Optimizers of torch.optim, by file, that allocate tensors of the parameter's size in their first
// step. Options may add tensors (amsgrad, momentum of RMSprop).
struct Known {
  std::string_view file;
  std::size_t tensors;  // for each parameter
  // Without fused=True or foreach=False, torch computes with all parameters together; Adam then
  // needs the square roots of all second moments simultaneously.
  bool has_scratch;
};
constexpr std::array kKnown{
    Known{"torch/optim/adam.py", 2, true},    Known{"torch/optim/adamw.py", 2, true},
    Known{"torch/optim/nadam.py", 2, true},   Known{"torch/optim/radam.py", 2, true},
    Known{"torch/optim/adamax.py", 2, false}, Known{"torch/optim/adadelta.py", 2, false},
    Known{"torch/optim/sgd.py", 1, false},    Known{"torch/optim/rmsprop.py", 1, false},
};

const Known* optimizer_of(const model::Trace& trace, model::StackId stack) {
  for (const model::FrameId id : trace.stacks.frames(stack)) {
    const std::string_view file = trace.strings[trace.stacks.frame(id).file];
    const auto known = std::ranges::find_if(
        kKnown, [&](const Known& each) { return base::ends_with_path(file, each.file); });
    if (known != kKnown.end()) return &*known;
  }
  return nullptr;
}

// Whether the stack is in the function in which optimizers of torch.optim create their state.
bool creates_state(const model::Trace& trace, model::StackId stack) {
  return std::ranges::any_of(trace.stacks.frames(stack), [&](model::FrameId id) {
    return trace.strings[trace.stacks.frame(id).function].ends_with("_init_group");
  });
}

}  // namespace

Need need_of_optimizer(const History& history, const Failure& failure, std::uint32_t step_begin) {
  const model::Trace& trace = history.trace();
  const model::DeviceTrace& device = history.device();
  Need need;
  const Known* optimizer = optimizer_of(trace, trace.site(device, failure.event).stack);
  if (optimizer == nullptr) return need;
  const model::StackId requesting = trace.site(device, failure.event).stack;
  std::set<model::StackId> lines;  // each makes one tensor of state for each parameter
  if (creates_state(trace, requesting)) lines.insert(requesting);
  std::uint64_t gradients = 0, state = 0, scratch = 0;
  bool has_scalars = false;
  for (const std::uint32_t row :
       model::live_set(device, model::default_liveness(device), failure.event)) {
    const std::uint64_t bytes = trace.lifetime_bytes(device, row);
    const std::string_view category = trace.strings[trace.category(device, row)];
    need.bytes += bytes;
    need.parts.push_back({row, bytes, false});
    if (category == model::kGradient) gradients += bytes;
    if (optimizer_of(trace, trace.stack(device, row)) != optimizer) continue;
    if (trace.size_bytes(device, row) < kLeastStateBytes) {
      has_scalars = true;
      continue;
    }
    if (!creates_state(trace, trace.stack(device, row))) {
      scratch += bytes;
      continue;
    }
    const std::uint32_t born = device.lifetimes.alloc[row];
    if (born == model::kNone || born < step_begin) return Need{};  // not the first step
    state += bytes;
    lines.insert(trace.stack(device, row));
  }
  const std::uint64_t all = gradients * std::max(optimizer->tensors, lines.size());
  const std::uint64_t requested = creates_state(trace, requesting) ? failure.requested_bytes : 0;
  if (gradients == 0 || all < state + requested) return Need{};
  need.basis = "optimizer_state";
  need.state_bytes = all - state;
  // Scalars on the device show fused=True, which computes in place.
  const bool has_scratch = optimizer->has_scratch && !has_scalars;
  need.scratch_bytes = has_scratch ? gradients - std::min(gradients, scratch) : 0;
  need.bytes += need.state_bytes + need.scratch_bytes;
  need.points.push_back({need.bytes, 0});
  return need;
}

}  // namespace plimsoll::analysis::oom
