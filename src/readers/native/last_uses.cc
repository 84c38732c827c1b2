#include "readers/native/last_uses.h"

#include <algorithm>

namespace plimsoll::readers::native {

LastUses::Point LastUses::now() const {
  Point point{};
  for (std::size_t device = 0; device < point.size(); ++device) {
    const Tables& tables = tables_[device];
    if (tables.events != nullptr) point[device] = static_cast<std::uint32_t>(tables.events->size());
  }
  return point;
}

void LastUses::observe(bool is_on) {
  if (is_on == is_observed_) return;
  is_observed_ = is_on;
  if (is_on) {
    has_uses_ = true;
    Point end;
    end.fill(model::kNone);
    observed_.emplace_back(now(), end);
  } else {
    observed_.back().second = now();
  }
}

void LastUses::fork() { forks_.push_back(now()); }

void LastUses::count(const Allocation& allocation, bool is_adopted) {
  if (!is_adopted) ++clock_;
  base::Column<std::uint32_t>& born = born_[allocation.device];
  born.resize(allocation.lifetime, 0);  // those from before the uses were observed
  born.push_back(clock_);
}

void LastUses::set(const Allocation& allocation, const format::EndUse& use, std::uint32_t clock) {
  if (use.age_plus_one == 0) return;
  model::Lifetimes& lifetimes = *tables_[allocation.device].lifetimes;
  const std::uint32_t age = use.age_plus_one - 1;
  lifetimes.set_use(allocation.lifetime,
                    {.unused_from = clock - std::min(age, clock),
                     .silence = age,
                     .gap = static_cast<std::uint8_t>(use.gap & ~format::kNeverUsed)});
}

void LastUses::note_free(const Allocation* allocation, bool is_in_op) {
  if (is_in_op) {
    if (allocation != nullptr) set(*allocation, {.age_plus_one = 1, .gap = 0}, clock_);
    return;
  }
  freed_[frees_++ % freed_.size()] = {allocation == nullptr ? Allocation{} : *allocation, clock_,
                                      allocation != nullptr};
}

void LastUses::add(const format::EndUses& uses) {
  if (uses.count > frees_) return;
  for (std::size_t i = 0; i < uses.count; ++i) {
    const Freed& freed = freed_[(frees_ - uses.count + i) % freed_.size()];
    if (freed.is_known) set(freed.allocation, uses.entries[i], freed.clock);
  }
}

// Whether it may have been used where nobody observed it: before the recording, by the child of a
// fork, or in a span without observation, unless a whole observed span followed its last use.
bool LastUses::is_used_elsewhere(const Allocation& allocation) const {
  if ((allocation.flags & Allocation::kIsAdopted) != 0) return true;
  const model::Lifetimes& lifetimes = *tables_[allocation.device].lifetimes;
  const std::uint32_t born = lifetimes.alloc[allocation.lifetime];
  const std::uint32_t freed = lifetimes.free_requested[allocation.lifetime];
  const std::size_t device = allocation.device;
  const bool is_forked = std::ranges::any_of(
      forks_, [&](const Point& at) { return born < at[device] && freed >= at[device]; });
  if (is_forked) return true;
  const bool is_observed = std::ranges::any_of(observed_, [&](const auto& span) {
    const std::uint32_t end = span.second[device];
    return born >= span.first[device] && (freed < end || end == model::kNone);
  });
  if (is_observed) return false;
  const std::uint32_t last = lifetimes.unused_from[allocation.lifetime];
  if (last == model::kNone) return true;
  const std::uint32_t unused_from = first_alloc_after(allocation.device, last);
  return std::ranges::none_of(observed_, [&](const auto& span) {
    return unused_from <= span.first[device] && freed >= span.second[device];
  });
}

std::uint32_t LastUses::first_alloc_after(std::uint8_t device, std::uint32_t clock) const {
  const base::Column<std::uint32_t>& born = born_[device];
  const std::uint32_t* const next = std::upper_bound(born.begin(), born.end(), clock);
  const Tables& tables = tables_[device];
  return next == born.end()
             ? static_cast<std::uint32_t>(tables.events->size())
             : tables.lifetimes->alloc[static_cast<std::size_t>(next - born.begin())];
}

void LastUses::resolve(const Allocation& allocation, bool is_unseen) {
  model::Lifetimes& lifetimes = *tables_[allocation.device].lifetimes;
  const std::uint32_t clock = lifetimes.unused_from[allocation.lifetime];
  if (clock == model::kNone) return;
  lifetimes.unused_from.rows(lifetimes.size())[allocation.lifetime] =
      is_unseen ? model::kNone : first_alloc_after(allocation.device, clock);
}

std::size_t LastUses::memory_bytes() const {
  std::size_t bytes = (observed_.capacity() * 2 + forks_.capacity()) * sizeof(Point);
  for (const auto& born : born_) bytes += born.memory_bytes();
  return bytes;
}

}  // namespace plimsoll::readers::native
