#include "allocation_book.h"

#include <new>

namespace plimsoll::cuda_driver {

bool AllocationBook::add(std::uint64_t address, const Allocation& allocation) noexcept try {
  Shard& shard = shard_of(address);
  const std::lock_guard lock(shard.mutex);
  shard.rows.insert_or_assign(address, allocation);
  return true;
} catch (...) {
  return false;
}

bool AllocationBook::take(std::uint64_t address, Allocation& allocation) noexcept {
  Shard& shard = shard_of(address);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.rows.find(address);
  if (found == shard.rows.end()) return false;
  allocation = found->second;
  shard.rows.erase(found);
  return true;
}

std::vector<std::pair<std::uint64_t, Allocation>> AllocationBook::take_all_of(int ordinal) {
  std::vector<std::pair<std::uint64_t, Allocation>> taken;
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    for (auto row = shard.rows.begin(); row != shard.rows.end();) {
      if (row->second.ordinal != ordinal || row->second.is_pooled) {
        ++row;
        continue;
      }
      taken.emplace_back(*row);
      row = shard.rows.erase(row);
    }
  }
  return taken;
}

void AllocationBook::lock() noexcept {
  for (Shard& shard : shards_) shard.mutex.lock();
}

void AllocationBook::unlock() noexcept {
  for (Shard& shard : shards_) shard.mutex.unlock();
}

void AllocationBook::forget() noexcept {
  for (Shard& shard : shards_) {
    shard.mutex.unlock();
    shard.rows.clear();
  }
}

AllocationBook& allocation_book() noexcept {
  alignas(AllocationBook) static unsigned char place[sizeof(AllocationBook)];
  static auto* const kBook = ::new (static_cast<void*>(place)) AllocationBook;  // never destroyed
  return *kBook;
}

}  // namespace plimsoll::cuda_driver
