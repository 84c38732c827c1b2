// What holds a set of allocations: where the chains to most of their bytes meet, and what a cut
// there would free.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::holders {

struct Holder {
  // Rows of Trace::holders.links. A container, variable or attribute of the program; and the last
  // link of the chain to the most bytes below it.
  std::uint32_t link = 0;
  std::uint32_t example = 0;
  std::uint64_t count = 0, bytes = 0;     // what it holds of the set
  const model::HolderCut* cut = nullptr;  // null: it was not cut
};

// Finds the holder of a chain: the link that was cut, nearest to the memory. Else the last
// container of several such items, or else what the program names last; its root if there is
// nothing like that.
class HolderIndex {
 public:
  explicit HolderIndex(const model::Trace& trace);

  // `last`: the last link of the chain. Rows of Trace::holders.links.
  std::uint32_t holder(std::uint32_t last) const;
  // Null if this link was not cut.
  const model::HolderCut* cut(std::uint32_t link) const;

 private:
  std::uint32_t container_of(std::uint32_t link) const;

  const model::Trace& trace_;
  std::map<std::uint32_t, const model::HolderCut*> cuts_;
};

// The holders of these rows of the device's lifetimes, most bytes first. Memory that no walk
// reached has none.
std::vector<Holder> holders_of(const model::Trace& trace, const model::DeviceTrace& device,
                               std::span<const std::uint32_t> lifetimes);
// The same for many sets of one trace.
std::vector<Holder> holders_of(const model::Trace& trace, const HolderIndex& index,
                               const model::DeviceTrace& device,
                               std::span<const std::uint32_t> lifetimes);

}  // namespace plimsoll::analysis::holders
