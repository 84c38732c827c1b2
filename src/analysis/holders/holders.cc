#include "analysis/holders/holders.h"

#include <algorithm>
#include <map>
#include <string>

#include "analysis/holders/chains.h"

namespace plimsoll::analysis::holders {
namespace {

using model::HolderLink;

bool is_every_item(const HolderLink& link) {
  return link.kind == PLIMSOLL_LINK_ITEM && link.name == model::StringId{};
}

// Whether the program names it: a variable, an attribute, a key, the hooks of an object.
bool is_named(const HolderLink& link) {
  return link.name != model::StringId{} && link.kind >= PLIMSOLL_LINK_ATTRIBUTE &&
         !is_of_tensor(link.kind);
}

}  // namespace

HolderIndex::HolderIndex(const model::Trace& trace) : trace_(trace) {
  for (const model::HolderCut& cut : trace.holders.cuts) cuts_[container_of(cut.link)] = &cut;
}

// The container of all items, or the link itself.
std::uint32_t HolderIndex::container_of(std::uint32_t link) const {
  const HolderLink& row = trace_.holders.links[link];
  return is_every_item(row) && row.parent != 0 ? row.parent : link;
}

const model::HolderCut* HolderIndex::cut(std::uint32_t link) const {
  const auto found = cuts_.find(link);
  return found == cuts_.end() ? nullptr : found->second;
}

std::uint32_t HolderIndex::holder(std::uint32_t last) const {
  std::uint32_t nearest = 0, of_items = 0, named = 0, root = 0;
  for (const std::uint32_t link : chain_to(trace_, last)) {
    const HolderLink& row = trace_.holders.links[link];
    if (root == 0) root = link;
    if (is_of_tensor(row.kind)) break;
    const std::uint32_t container = container_of(link);
    if (cut(container) != nullptr) nearest = container;
    if (is_every_item(row)) of_items = container;
    if (is_named(row)) named = link;
  }
  for (const std::uint32_t link : {nearest, of_items, named}) {
    if (link != 0) return link;
  }
  return root;
}

std::vector<Holder> holders_of(const model::Trace& trace, const model::DeviceTrace& device,
                               std::span<const std::uint32_t> lifetimes) {
  return holders_of(trace, HolderIndex(trace), device, lifetimes);
}

std::vector<Holder> holders_of(const model::Trace& trace, const HolderIndex& index,
                               const model::DeviceTrace& device,
                               std::span<const std::uint32_t> lifetimes) {
  struct Part {
    std::uint64_t count = 0, bytes = 0;
  };
  std::map<std::uint32_t, Part> by_chain;  // by the last link
  for (const std::uint32_t lifetime : lifetimes) {
    const std::uint32_t link = device.lifetimes.holder[lifetime];
    if (link == 0) continue;
    Part& part = by_chain[link];
    ++part.count;
    part.bytes += trace.lifetime_bytes(device, lifetime);
  }
  // Each walk has its own links: one holder may have several rows, of which the last counts.
  std::map<std::string, Holder> holders;
  std::map<std::string, std::uint64_t> most;  // of one chain
  for (const auto& [link, part] : by_chain) {
    const std::uint32_t row = index.holder(link);
    const std::string path = path_text(trace, row);
    Holder& holder = holders[path];
    if (row > holder.link) {
      holder.link = row;
      holder.cut = index.cut(row);
      most[path] = 0;
    }
    holder.count += part.count;
    holder.bytes += part.bytes;
    if (part.bytes > most[path]) {
      holder.example = link;
      most[path] = part.bytes;
    }
  }
  std::vector<Holder> sorted;
  for (const auto& [path, holder] : holders) sorted.push_back(holder);
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &Holder::bytes);
  return sorted;
}

}  // namespace plimsoll::analysis::holders
