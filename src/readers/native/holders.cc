#include "readers/native/holders.h"

#include <algorithm>

namespace plimsoll::readers::native {
namespace {

// Newer files may have other kinds.
plimsoll_link_kind known(std::uint8_t kind) {
  return kind <= PLIMSOLL_LINK_LOST ? static_cast<plimsoll_link_kind>(kind) : PLIMSOLL_LINK_OTHER;
}

}  // namespace

void HolderRecords::add(const format::HolderWalk& walk) {
  const auto end =
      static_cast<plimsoll_walk_end>(std::min<std::uint8_t>(walk.end, PLIMSOLL_WALK_TIME));
  holders_.walks.push_back({walk.time_ns, walk.objects, walk.nodes, walk.duration_ns, end});
  first_ = holders_.links.size();
  is_in_walk_ = true;
}

void HolderRecords::add(const format::HolderLink& link) {
  if (!is_in_walk_ || holders_.links.size() >= model::kNone) return;
  const std::uint32_t parent = row_of(link.parent);
  // A damaged file: later numbers would name other links.
  if (parent == 0 && link.parent != 0) return lose_block();
  holders_.links.push_back({.parent = parent,
                            .walk = static_cast<std::uint32_t>(holders_.walks.size() - 1),
                            .name = definitions_.name(link.name),
                            .type = definitions_.name(link.type),
                            .file = definitions_.name(link.file),
                            .line = link.line,
                            .kind = known(link.kind),
                            .length = link.length,
                            .limit = link.limit});
}

void HolderRecords::add(const format::HolderCut& cut) {
  const std::uint32_t link = row_of(cut.link);
  if (link == 0) return;
  holders_.cuts.push_back({link, row_of(cut.other), cut.freed_count, cut.freed_bytes,
                           cut.left_count, cut.left_bytes, cut.is_native != 0});
}

std::uint32_t HolderRecords::row_of(std::uint32_t link) const {
  const std::size_t row = first_ + link - 1;
  return is_in_walk_ && link != 0 && row < holders_.links.size() ? static_cast<std::uint32_t>(row)
                                                                 : 0;
}

std::size_t HolderRecords::memory_bytes() const {
  return holders_.links.capacity() * sizeof(model::HolderLink) +
         holders_.walks.capacity() * sizeof(model::HolderWalk) +
         holders_.cuts.capacity() * sizeof(model::HolderCut);
}

}  // namespace plimsoll::readers::native
