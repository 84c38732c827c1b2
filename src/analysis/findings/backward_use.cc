#include "analysis/findings/backward_use.h"

#include <algorithm>

#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

// How many backwards to check after a forward. Activations that none of them uses count as never
// used.
constexpr std::size_t kMostBackwards = 16;

}  // namespace

std::uint64_t layer_operator(const Peak& peak, const PeakAllocation& allocation) {
  const model::Site& site = peak.site(allocation);
  return std::uint64_t{site.layer.value} << 32 | site.op.value;
}

bool is_forward_activation(const Peak& peak, const PeakAllocation& allocation) {
  return peak.category(allocation) == model::kActivation &&
         peak.phase(allocation) == model::Phase::kForward &&
         !has(peak.flags(allocation), model::LifetimeFlags::kAdopted);
}

bool may_be_of_graph(const Peak& peak, const PeakAllocation& allocation) {
  return is_forward_activation(peak, allocation) &&
         peak.site(allocation).autograd != model::Autograd::kOff;
}

std::set<std::string_view> roots_without_parameters(const Peak& peak) {
  const auto& strings = peak.trace().strings;
  std::set<std::string_view> roots, with_parameters;
  peak.for_each([&](const PeakAllocation& allocation) {
    if (const auto root = root_of(strings[peak.site(allocation).layer]); !root.empty()) {
      roots.insert(root);
    }
    if (peak.category(allocation) != model::kParameter) return;
    const std::string_view name = strings[peak.tensor(allocation).name];
    if (!name.empty()) with_parameters.insert(root_of(name));
  });
  if (with_parameters.empty()) return {};
  std::erase_if(roots, [&](std::string_view root) { return with_parameters.contains(root); });
  return roots;
}

BackwardUse::BackwardUse(const Peak& peak) : peak_(peak), spans_(peak.evidence().spans()) {
  const model::Events& events = peak.device().trace.events;
  for (std::uint32_t event = 0; event < events.size(); ++event) {
    if (events.action[event] == model::Action::kOom) ooms_.push_back(event);
  }
  if (backwards().empty()) return;
  peak.for_each([&](const PeakAllocation& allocation) {
    const bool is_backward = peak_.phase(allocation) == model::Phase::kBackward;
    const std::uint32_t event = is_backward ? allocation.born : allocation.died;
    const std::size_t backward = spans_.backward_at(event);
    if (backward == backwards().size()) return;
    if (!is_backward && !is_forward_activation(peak_, allocation)) return;
    const auto next = static_cast<std::uint32_t>(roots_.size());
    const std::uint32_t number = roots_.try_emplace(root(allocation), next).first->second;
    Use& use = uses_[key(number, backward)];
    if (is_backward) use.is_run = true;
    if (is_backward) return;
    use.latest_born = std::max(use.latest_born, allocation.born);
    ++use.freed;
  });
}

std::string_view BackwardUse::root(const PeakAllocation& allocation) const {
  return root_of(peak_.trace().strings[peak_.site(allocation).layer]);
}

bool BackwardUse::may_be_used(const PeakAllocation& last, std::size_t kept) const {
  const auto found = roots_.find(root(last));
  if (found == roots_.end()) return false;
  const std::size_t first = interval(last);
  for (std::size_t i = first; i < std::min(first + kMostBackwards, backwards().size()); ++i) {
    if (backwards()[i].begin > last.died) break;
    const auto use = uses_.find(key(found->second, i));
    if (use == uses_.end() || !use->second.is_run) continue;
    if (use->second.latest_born <= last.born && use->second.freed < kept) return true;
  }
  return false;
}

bool BackwardUse::is_of_failed_forward(const PeakAllocation& allocation) const {
  const auto oom = std::ranges::upper_bound(ooms_, allocation.born);
  if (oom == ooms_.end() || *oom > allocation.died) return false;
  const std::size_t next = interval(allocation);
  return next == backwards().size() || *oom < backwards()[next].begin;
}

bool BackwardUse::outlives_backward(const PeakAllocation& allocation) const {
  const std::size_t next = interval(allocation);
  return next < backwards().size() && backwards()[next].begin <= allocation.died;
}

}  // namespace plimsoll::analysis::findings
