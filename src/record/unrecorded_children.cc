#include "record/unrecorded_children.h"

#include <sys/mman.h>

#include <new>

namespace plimsoll::record {

void UnrecordedChildren::begin() noexcept {
  if (own_ != nullptr) return;
  void* const shared =
      mmap(nullptr, sizeof(Count), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED) own_ = ::new (shared) Count(0);
}

std::uint64_t UnrecordedChildren::count() const noexcept {
  return own_ != nullptr ? own_->load(std::memory_order_relaxed) : 0;
}

// A child of such a child also counts as one, whether or not its parent has been counted.
void UnrecordedChildren::begin_in_child(Child child) noexcept {
  if (child == Child::kUnrecorded) of_parent_ = own_;
  if (child == Child::kRecorded) of_parent_ = nullptr;
  own_ = nullptr;
  parents_.store(of_parent_, std::memory_order_relaxed);
}

void UnrecordedChildren::count_this_process() noexcept {
  Count* const count = parents_.exchange(nullptr, std::memory_order_relaxed);
  if (count != nullptr) count->fetch_add(1, std::memory_order_relaxed);
}

}  // namespace plimsoll::record
