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
  std::uint64_t of_model = 0;             // bytes of parameters, gradients and optimizer state
  std::uint64_t used_again = 0;           // bytes that operators use again later, if that is known
  bool has_grown = false;                 // it is a container that gets longer
  const model::HolderCut* cut = nullptr;  // null: it was not cut
};

// What is known of the links of all walks. Links of several walks that the program calls the same
// are one thing.
class HolderIndex {
 public:
  explicit HolderIndex(const model::Trace& trace);

  // Null if this link was not cut.
  const model::HolderCut* cut(std::uint32_t link) const;
  // Equal for links that the program calls the same, whatever line a function was executing.
  std::uint32_t identity(std::uint32_t link) const { return identities_[link]; }
  // Whether a later walk found more entries in it than an earlier one.
  bool has_grown(std::uint32_t link) const;
  // The container of all items, or the link itself. A queue is the container of its items.
  std::uint32_t container_of(std::uint32_t link) const;

  // What to edit so that the program no longer keeps what the chain leads to: the outermost
  // container that gets longer. Else the outermost one that was cut and holds no more of the
  // model than the innermost, unlike a list of layers; else the cut nearest to the memory, or the
  // last container of several such items, or what the program names last; its root if there is
  // nothing like that. A parameter is one of many: in its place, the whole model. `last`: the last
  // link of the chain.
  std::uint32_t holder(std::uint32_t last) const;

 private:
  struct Lengths {
    std::uint64_t first = 0, last = 0;  // of the first and the last walk that found it
  };
  struct Below {
    std::uint64_t bytes = 0, of_model = 0;
  };
  void number_links();
  void add_memory();
  double share_of_model(std::uint32_t link) const;

  const model::Trace& trace_;
  std::vector<std::uint32_t> identities_;  // by link
  std::vector<Lengths> lengths_;           // by identity
  std::vector<Below> below_;               // by link
  std::map<std::uint32_t, const model::HolderCut*> cuts_;
};

// The holders of these rows of the device's lifetimes, most bytes first. Memory that no walk
// reached has none.
std::vector<Holder> holders_of(const model::Trace& trace, const HolderIndex& index,
                               const model::DeviceTrace& device,
                               std::span<const std::uint32_t> lifetimes);

}  // namespace plimsoll::analysis::holders
