// Charges the free memory of release units to the blocks that pin it: those that touch the unit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "base/release_units.h"

namespace plimsoll::base {

struct PinBlock {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size_bytes = 0;  // as the owner's rows count it
  std::uint32_t owner = 0;       // what allocated it: a line, a site; a small number
};

struct OwnerPins {
  std::uint64_t blocks = 0;  // that pin free memory
  std::uint64_t block_bytes = 0;
  std::uint64_t pinned_bytes = 0;  // free memory of the units that its blocks touch
  std::uint64_t alone_bytes = 0;   // of those, in units that no other owner's block touches
};

class PinCharges {
 public:
  // Blocks are in order of address.
  explicit PinCharges(std::vector<PinBlock> blocks)
      : blocks_(std::move(blocks)), is_counted_(blocks_.size()) {}

  // Completely free units have no pins. Visits the row of each block that pins a unit only once.
  template <typename Visit>
  void charge(const ReleaseUnit& unit, Visit&& visit) {
    owners_.clear();
    for (std::size_t row = first_touching(unit.begin);
         row < blocks_.size() && blocks_[row].begin < unit.end; ++row) {
      const PinBlock& block = blocks_[row];
      if (std::ranges::find(owners_, block.owner) == owners_.end()) owners_.push_back(block.owner);
      if (is_counted_[row]) continue;  // it spans two units
      is_counted_[row] = true;
      if (block.owner >= by_owner_.size()) by_owner_.resize(std::size_t{block.owner} + 1);
      ++by_owner_[block.owner].blocks;
      by_owner_[block.owner].block_bytes += block.size_bytes;
      visit(row);
    }
    for (const std::uint32_t owner : owners_) {
      by_owner_[owner].pinned_bytes += unit.free_bytes;
      if (owners_.size() == 1) by_owner_[owner].alone_bytes += unit.free_bytes;
    }
  }

  // Indexed by owner.
  const std::vector<OwnerPins>& by_owner() const { return by_owner_; }

 private:
  std::size_t first_touching(std::uint64_t address) const {
    auto found = std::ranges::upper_bound(blocks_, address, {}, &PinBlock::begin);
    if (found != blocks_.begin() && std::prev(found)->end > address) --found;
    return static_cast<std::size_t>(found - blocks_.begin());
  }

  std::vector<PinBlock> blocks_;
  std::vector<bool> is_counted_;  // by row of blocks_
  std::vector<OwnerPins> by_owner_;
  std::vector<std::uint32_t> owners_;  // of the unit being charged
};

}  // namespace plimsoll::base
