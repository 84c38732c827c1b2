#include "readers/native/last_uses.h"

#include <algorithm>

namespace plimsoll::readers::native {

void LastUses::observe(bool is_on) {
  if (is_on && !is_observed_) known_from_ = clock_;
  has_uses_ = has_uses_ || is_on;
  is_observed_ = is_on;
}

void LastUses::lose_events() { known_from_ = clock_; }

// The end of observation or a fork may be among what is lost.
void LastUses::lose_block() {
  is_observed_ = false;
  fork();
}

void LastUses::count(const Allocation& allocation, bool is_adopted) {
  if (!is_adopted) ++clock_;
  base::Column<std::uint32_t>& born = born_[allocation.device];
  born.resize(allocation.lifetime, 0);  // those from before the uses were observed
  born.push_back(clock_);
}

// From which clock on all uses are known of memory that ends here; kNone if there is no such clock.
// A child process may use what was live at the fork at any time.
std::uint32_t LastUses::known_from(const Allocation& allocation) const {
  const base::Column<std::uint32_t>& born = born_[allocation.device];
  const bool is_counted = allocation.lifetime < born.size() && born[allocation.lifetime] > forked_;
  const bool is_adopted = (allocation.flags & Allocation::kIsAdopted) != 0;
  return is_observed_ && is_counted && !is_adopted ? known_from_ : model::kNone;
}

void LastUses::set(const Ended& ended, const format::EndUse& use) {
  if (use.age_plus_one == 0) return;
  const Allocation& allocation = ended.allocation;
  const std::uint32_t age = use.age_plus_one - 1;
  const bool is_known = age <= ended.clock && ended.clock - age >= ended.known_from;
  tables_[allocation.device].lifetimes->set_use(
      allocation.lifetime, {.unused_from = is_known ? ended.clock - age : model::kNone,
                            .silence = age,
                            .gap = static_cast<std::uint8_t>(use.gap & ~format::kNeverUsed)});
}

void LastUses::note_free(const Allocation* allocation, bool is_in_op) {
  const std::optional<Ended> ended =
      allocation == nullptr ? std::nullopt : std::optional(end(*allocation));
  if (!is_in_op) {
    freed_[frees_++ % freed_.size()] = ended;
  } else if (ended) {
    set(*ended, {.age_plus_one = 1, .gap = 0});
  }
}

void LastUses::add(const format::EndUses& uses) {
  if (uses.count > frees_) return;
  for (std::size_t i = 0; i < uses.count; ++i) {
    const std::optional<Ended>& freed = freed_[(frees_ - uses.count + i) % freed_.size()];
    if (freed) set(*freed, uses.entries[i]);
  }
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
  std::size_t bytes = 0;
  for (const auto& born : born_) bytes += born.memory_bytes();
  return bytes;
}

}  // namespace plimsoll::readers::native
