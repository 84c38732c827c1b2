// An open-addressing table of row numbers. The keys are in the columns of the owning table, so each
// entry takes at most eight bytes. Rows are never removed. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/ids.h"

namespace plimsoll::model {

class RowSet {
 public:
  // The row with this hash for which `is_same` is true, or kNone.
  template <typename IsSame>
  std::uint32_t find(std::uint64_t hash, IsSame&& is_same) const {
    if (slots_.empty()) return kNone;
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = hash & mask; slots_[at] != kNone; at = (at + 1) & mask) {
      if (is_same(slots_[at])) return slots_[at];
    }
    return kNone;
  }
  // Inserts a row that is not yet in the table; `hash_of` hashes the existing rows.
  template <typename HashOf>
  void insert(std::uint64_t hash, std::uint32_t row, HashOf&& hash_of) {
    if ((used_ + 1) * 2 > slots_.size()) grow(hash_of);
    place(hash, row);
  }
  std::size_t memory_bytes() const { return slots_.capacity() * sizeof(std::uint32_t); }

 private:
  void place(std::uint64_t hash, std::uint32_t row) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at] != kNone) at = (at + 1) & mask;
    slots_[at] = row;
    ++used_;
  }
  template <typename HashOf>
  void grow(HashOf&& hash_of) {
    std::vector<std::uint32_t> old(std::max<std::size_t>(64, slots_.size() * 2), kNone);
    old.swap(slots_);
    used_ = 0;
    for (const std::uint32_t row : old) {
      if (row != kNone) place(hash_of(row), row);
    }
  }

  std::vector<std::uint32_t> slots_;
  std::size_t used_ = 0;
};

}  // namespace plimsoll::model
