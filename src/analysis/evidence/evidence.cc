#include "analysis/evidence/evidence.h"

#include "model/live_set.h"

namespace plimsoll::analysis::evidence {

using model::kNone;
using model::LifetimeFlags;

Evidence::Evidence(const model::Trace& trace, const TraceFacts& of_trace,
                   const model::DeviceTrace& device)
    : trace_(trace), device_(device), of_trace_(of_trace), spans_(trace, device) {}

Fate Evidence::fate(std::uint32_t lifetime) const {
  const model::Lifetimes& lifetimes = device_.lifetimes;
  const model::Liveness liveness = model::default_liveness(device_);
  const std::uint32_t died = model::death(lifetimes, lifetime, liveness);
  if (died == kNone) return Fate::kLive;
  if (has(lifetimes.flags[lifetime], LifetimeFlags::kTemporary)) return Fate::kOperator;
  const auto collections = spans_.collections();
  const bool is_collected = has(lifetimes.flags[lifetime], LifetimeFlags::kCollected);
  if (is_collected && !collections.empty() && died >= collections.front()) return Fate::kCollector;
  const std::uint32_t requested = lifetimes.free_requested[lifetime];
  const bool waits =
      liveness == model::Liveness::kActive && requested < died && died - requested > 1;
  if (waits) return Fate::kStream;
  return spans_.backward_at(died) < spans_.backwards().size() ? Fate::kBackward : Fate::kProgram;
}

std::uint32_t Evidence::pass(std::uint32_t lifetime) const {
  const std::uint32_t born = device_.lifetimes.alloc[lifetime];
  if (born == kNone) return 0;
  if (!passes_) passes_.emplace(trace_, device_);
  return passes_->of(site(lifetime).layer, born);
}

}  // namespace plimsoll::analysis::evidence
