#include "python/holders/table.h"

#include <sys/mman.h>

#include <utility>

namespace plimsoll::libtorch::holders {
namespace {

constexpr unsigned kFirstBits = 18;

}  // namespace

namespace {

// Lookups are all over it.
bool reserve_huge(Pages& pages, std::size_t size_bytes) {
  if (!pages.reserve(size_bytes)) return false;
  madvise(pages.data(), size_bytes, MADV_HUGEPAGE);
  return true;
}

}  // namespace

bool Table::open(std::uint32_t most_entries) {
  most_ = most_entries;
  if (!reserve_huge(entry_pages_, (std::size_t{most_entries} + 1) * sizeof(Entry))) return false;
  if (!reserve_huge(slot_pages_, (std::size_t{1} << kFirstBits) * sizeof(std::uint32_t)))
    return false;
  entries_ = static_cast<Entry*>(entry_pages_.data());
  slots_ = static_cast<std::uint32_t*>(slot_pages_.data());
  slot_mask_ = (std::size_t{1} << kFirstBits) - 1;
  shift_ = 64 - kFirstBits;
  return true;
}

bool Table::widen() {
  Pages wider;
  const unsigned bits = 64 - shift_ + 1;
  if (!reserve_huge(wider, (std::size_t{1} << bits) * sizeof(std::uint32_t))) return false;
  slot_pages_.swap(wider);
  slots_ = static_cast<std::uint32_t*>(slot_pages_.data());
  slot_mask_ = (std::size_t{1} << bits) - 1;
  shift_ = 64 - bits;
  constexpr std::uint32_t kAhead = 16;
  for (std::uint32_t i = 1; i <= size_; ++i) {
    if (i + kAhead <= size_) prefetch(entries_[i + kAhead].address);
    std::size_t at = home(entries_[i].address);
    while (slots_[at] != 0) at = (at + 1) & slot_mask_;
    slots_[at] = i;
  }
  return true;
}

std::uint32_t Table::find(const void* address) const {
  std::size_t at = home(address);
  while (slots_[at] != 0 && entries_[slots_[at]].address != address) at = (at + 1) & slot_mask_;
  return slots_[at];
}

std::uint32_t Table::find_or_add(const void* address, Kind kind) {
  std::size_t at = home(address);
  while (slots_[at] != 0) {
    if (entries_[slots_[at]].address == address) return slots_[at];
    at = (at + 1) & slot_mask_;
  }
  if (size_ == most_ || (std::size_t{size_} * 5 >= slot_mask_ * 3 && !widen())) {
    is_full_ = true;
    return 0;
  }
  at = home(address);
  while (slots_[at] != 0) at = (at + 1) & slot_mask_;
  slots_[at] = ++size_;
  entries_[size_].address = address;
  entries_[size_].kind = kind;
  return size_;
}

}  // namespace plimsoll::libtorch::holders
