// Finds the id of a value by its hash. An open-addressing table of ids; the owner stores the values
// and compares them. Ids begin at 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::record {

class IdIndex {
 public:
  // Returns the id for which `is_same(id)` is true, or 0.
  template <typename IsSame>
  std::uint32_t find(std::uint64_t hash, IsSame&& is_same) const {
    if (slots_.empty()) return 0;
    for (std::size_t i = hash & mask();; i = (i + 1) & mask()) {
      const Slot& slot = slots_[i];
      if (slot.id == 0) return 0;
      if (slot.hash == hash && is_same(slot.id)) return slot.id;
    }
  }
  // Makes room for one more id. May throw std::bad_alloc, with no effect.
  void reserve_one() {
    if ((used_ + 1) * 3 <= slots_.size() * 2) return;
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id != 0) put(slot);
    }
  }
  // Never fails after reserve_one().
  void insert(std::uint64_t hash, std::uint32_t id) noexcept {
    put({hash, id});
    ++used_;
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t id = 0;
  };
  std::size_t mask() const { return slots_.size() - 1; }
  void put(const Slot& slot) noexcept {
    std::size_t i = slot.hash & mask();
    while (slots_[i].id != 0) i = (i + 1) & mask();
    slots_[i] = slot;
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace plimsoll::record
