#include "analysis/evidence/evidence.h"

#include <algorithm>

namespace plimsoll::analysis::evidence {
namespace {

using model::kNone;
using model::LifetimeFlags;

std::vector<std::pair<model::StringId, Category>> categories_in(const model::StringTable& strings) {
  std::vector<std::pair<model::StringId, Category>> found;
  for (std::uint32_t id = 0; id < strings.size(); ++id) {
    const auto name = std::ranges::find(base::kCategoryNames, strings[model::StringId{id}]);
    if (name == base::kCategoryNames.end()) continue;
    found.emplace_back(model::StringId{id},
                       static_cast<Category>(name - base::kCategoryNames.begin()));
  }
  return found;
}

}  // namespace

Evidence::Evidence(const model::Trace& trace, const model::UserLines& lines,
                   const TraceFacts& of_trace, const model::DeviceTrace& device)
    : trace_(trace),
      lines_(lines),
      of_trace_(of_trace),
      device_(device),
      spans_(trace, device),
      uses_(trace, device),
      categories_(categories_in(trace.strings)),
      fates_(device.lifetimes.size()),
      passes_(device.lifetimes.size()) {
  const Passes passes(trace, device);
  for (std::uint32_t id = 0; id < fates_.size(); ++id) {
    fates_[id] = fate_of(id);
    const std::uint32_t born = device.lifetimes.alloc[id];
    if (born != kNone) passes_[id] = passes.of(trace.birth(device, id).layer, born);
  }
}

Fate Evidence::fate_of(std::uint32_t lifetime) const {
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

Row Evidence::row(std::uint32_t lifetime) const {
  const model::Lifetimes& lifetimes = device_.lifetimes;
  Row row;
  row.lifetime = lifetime;
  row.born = lifetimes.alloc[lifetime];
  row.died = model::death(lifetimes, lifetime, model::default_liveness(device_));
  row.size_bytes = trace_.lifetime_bytes(device_, lifetime);
  row.site = &trace_.birth(device_, lifetime);
  row.stack = row.site->stack;
  // Only the final block has the site of an allocation from before the recording.
  const bool is_of_block = row.born == kNone && lifetimes.block[lifetime] != kNone;
  if (is_of_block) row.stack = trace_.stack(device_, lifetime);
  row.step = row.born == kNone ? 0 : spans_.step(row.born);
  row.round = row.born == kNone ? 0 : spans_.round(row.born);
  row.pass = passes_[lifetime];
  const auto category = std::ranges::find(categories_, trace_.category(device_, lifetime),
                                          &std::pair<model::StringId, Category>::first);
  if (category != categories_.end()) row.category = category->second;
  row.fate = fates_[lifetime];
  row.flags = lifetimes.flags[lifetime];
  return row;
}

}  // namespace plimsoll::analysis::evidence
