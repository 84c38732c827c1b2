#include "analysis/oom/optimizer_need.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::analysis::oom {
namespace {

using evidence::StackFlag;

// Smaller state is a scalar, such as the number of the step.
constexpr std::uint64_t kLeastStateBytes = 64;

}  // namespace

Need need_of_optimizer(const History& history, const Failure& failure, std::uint32_t step_begin) {
  const model::Trace& trace = history.trace();
  const model::DeviceTrace& device = history.device();
  Need need;
  const model::StackId requesting = trace.site(device, failure.event).stack;
  // How many tensors of state a parameter has, if the stack shows it.
  const auto tensors_by = [&](model::StackId stack) -> std::size_t {
    if (history.stacks().has(stack, StackFlag::kTwoStates)) return 2;
    return history.stacks().has(stack, StackFlag::kOneState) ? 1 : 0;
  };
  const std::size_t tensors = tensors_by(requesting);
  if (tensors == 0) return need;
  const auto creates_state = [&](model::StackId stack) {
    return history.stacks().has(stack, StackFlag::kInitState);
  };
  std::set<model::StackId> lines;  // each makes one tensor of state for each parameter
  if (creates_state(requesting)) lines.insert(requesting);
  std::uint64_t gradients = 0, state = 0, scratch = 0;
  bool has_scalars = false;
  for (const std::uint32_t row :
       model::live_set(device, model::default_liveness(device), failure.event)) {
    const std::uint64_t bytes = trace.lifetime_bytes(device, row);
    const std::string_view category = trace.strings[trace.category(device, row)];
    need.bytes += bytes;
    need.parts.push_back({row, bytes, false});
    if (category == model::kGradient) gradients += bytes;
    const model::StackId stack = trace.stack(device, row);
    if (tensors_by(stack) != tensors) continue;
    if (trace.size_bytes(device, row) < kLeastStateBytes) {
      has_scalars = true;
      continue;
    }
    if (!creates_state(stack)) {
      scratch += bytes;
      continue;
    }
    const std::uint32_t born = device.lifetimes.alloc[row];
    if (born == model::kNone || born < step_begin) return Need{};  // not the first step
    state += bytes;
    lines.insert(stack);
  }
  const std::uint64_t all = gradients * std::max(tensors, lines.size());
  const std::uint64_t requested = creates_state(requesting) ? failure.requested_bytes : 0;
  if (gradients == 0 || all < state + requested) return Need{};
  need.basis = "optimizer_state";
  need.state_bytes = all - state;
  // Scalars on the device show fused=True, which computes in place.
  const bool has_scratch =
      history.stacks().has(requesting, StackFlag::kSquareRoots) && !has_scalars;
  need.scratch_bytes = has_scratch ? gradients - std::min(gradients, scratch) : 0;
  need.bytes += need.state_bytes + need.scratch_bytes;
  need.points.push_back({need.bytes, 0});
  return need;
}

}  // namespace plimsoll::analysis::oom
