#include "analysis/holders/holders.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "analysis/holders/chains.h"
#include "model/last_use.h"

namespace plimsoll::analysis::holders {
namespace {

using model::HolderLink;

bool is_every_item(const HolderLink& link) {
  return link.kind == PLIMSOLL_LINK_ITEM && link.name == model::StringId{};
}

// Whether the program names it: a variable, an attribute, a key, the hooks of an object.
bool is_named(const HolderLink& link) {
  if (link.kind == PLIMSOLL_LINK_LOCAL) return true;  // in C++ without its name
  return link.name != model::StringId{} && link.kind >= PLIMSOLL_LINK_ATTRIBUTE &&
         !is_of_tensor(link.kind);
}

bool is_of_model(const model::Trace& trace, const model::DeviceTrace& device,
                 std::uint32_t lifetime) {
  return model::is_kept_category(trace.strings[trace.category(device, lifetime)]);
}

}  // namespace

HolderIndex::HolderIndex(const model::Trace& trace) : trace_(trace) {
  number_links();
  add_memory();
  for (const model::HolderCut& cut : trace.holders.cuts) cuts_[container_of(cut.link)] = &cut;
}

void HolderIndex::number_links() {
  using Key = std::tuple<std::uint32_t, plimsoll_link_kind, std::uint32_t, std::uint32_t>;
  const std::vector<HolderLink>& links = trace_.holders.links;
  std::map<Key, std::uint32_t> numbers;
  std::vector<std::uint32_t> walk_of;  // the last one that found it, by identity
  identities_.resize(links.size());
  lengths_.resize(1);
  walk_of.resize(1);
  for (std::uint32_t at = 1; at < links.size(); ++at) {
    const HolderLink& link = links[at];
    const bool has_name = link.name != model::StringId{};
    const Key key{identities_[link.parent], link.kind, link.name.value,
                  has_name ? 0 : link.type.value};
    const auto number = static_cast<std::uint32_t>(lengths_.size());
    const auto [found, is_new] = numbers.try_emplace(key, number);
    identities_[at] = found->second;
    if (is_new) {
      lengths_.push_back({link.length, link.length});
      walk_of.push_back(link.walk);
      continue;
    }
    // Links are in the order of their walks. One walk may have several of one name.
    Lengths& lengths = lengths_[found->second];
    const bool is_later = walk_of[found->second] != link.walk;
    lengths.last = is_later ? link.length : std::max(lengths.last, link.length);
    walk_of[found->second] = link.walk;
  }
}

void HolderIndex::add_memory() {
  below_.resize(trace_.holders.links.size());
  for (const model::DeviceTrace& device : trace_.devices) {
    if (!device.lifetimes.holder.present()) continue;
    for (std::uint32_t row = 0; row < device.lifetimes.size(); ++row) {
      const std::uint32_t link = device.lifetimes.holder[row];
      if (link == 0) continue;
      const std::uint64_t bytes = trace_.lifetime_bytes(device, row);
      below_[link].bytes += bytes;
      if (is_of_model(trace_, device, row)) below_[link].of_model += bytes;
    }
  }
  // Parents have lower rows.
  for (auto at = below_.size(); at-- > 1;) {
    Below& parent = below_[trace_.holders.links[at].parent];
    parent.bytes += below_[at].bytes;
    parent.of_model += below_[at].of_model;
  }
}

double HolderIndex::share_of_model(std::uint32_t link) const {
  const Below& below = below_[link];
  return below.bytes == 0 ? 0
                          : static_cast<double>(below.of_model) / static_cast<double>(below.bytes);
}

bool HolderIndex::has_grown(std::uint32_t link) const {
  const Lengths& lengths = lengths_[identities_[link]];
  return lengths.last > lengths.first && lengths.first > 0;
}

std::uint32_t HolderIndex::container_of(std::uint32_t link) const {
  const HolderLink& row = trace_.holders.links[link];
  const std::uint32_t container = is_every_item(row) && row.parent != 0 ? row.parent : link;
  const std::uint32_t owner = trace_.holders.links[container].parent;
  const bool is_queue = container != link && owner != 0 &&
                        is_queue_type(trace_.strings[trace_.holders.links[owner].type]);
  return is_queue ? owner : container;
}

const model::HolderCut* HolderIndex::cut(std::uint32_t link) const {
  const auto found = cuts_.find(link);
  return found == cuts_.end() ? nullptr : found->second;
}

std::uint32_t HolderIndex::holder(std::uint32_t last) const {
  std::uint32_t grown = 0, nearest = 0, of_items = 0, named = 0, root = 0;
  std::vector<std::uint32_t> cut_containers;  // of items, from the root on
  const std::vector<std::uint32_t> chain = chain_to(trace_, last);
  const bool is_cycle = trace_.holders.links[chain.front()].kind == PLIMSOLL_LINK_CYCLE;
  if (is_cycle) return chain.front();  // the program has no name for what is in it
  for (const std::uint32_t link : chain) {
    const HolderLink& row = trace_.holders.links[link];
    if (root == 0) root = link;
    if (is_of_tensor(row.kind)) break;
    const std::uint32_t container = container_of(link);
    if (is_every_item(row)) {
      of_items = container;
      if (grown == 0 && (has_grown(container) || has_grown(row.parent))) grown = container;
    }
    if (is_named(row)) named = link;
    if (cut(container) == nullptr) continue;
    nearest = container;
    if (is_every_item(row)) cut_containers.push_back(container);
  }
  // A model is the holder of its parts only.
  const auto next = std::ranges::find(chain, nearest);
  const auto is_part = [&](std::uint32_t link) {
    return trace_.holders.links[link].kind == PLIMSOLL_LINK_PART;
  };
  if (chain.end() - next > 1 && is_part(next[1]) && !is_part(named)) nearest = 0;
  // A list of layers holds more of the model than the cache in one of them.
  const auto outermost_of = [&]() -> std::uint32_t {
    constexpr double kMuch = 0.1;
    const auto found = std::ranges::find_if(cut_containers, [&](std::uint32_t each) {
      return share_of_model(each) <= share_of_model(cut_containers.back()) + kMuch;
    });
    return found == cut_containers.end() ? 0 : *found;
  };
  for (const std::uint32_t link : {grown, outermost_of(), nearest, of_items, named}) {
    if (link != 0) return model_of(trace_, link);
  }
  return root;
}

std::vector<Holder> holders_of(const model::Trace& trace, const HolderIndex& index,
                               const model::DeviceTrace& device,
                               std::span<const std::uint32_t> lifetimes) {
  struct Part {
    std::uint64_t count = 0, bytes = 0, of_model = 0;
  };
  std::map<std::uint32_t, Part> by_chain;  // by the last link
  for (const std::uint32_t lifetime : lifetimes) {
    const std::uint32_t link = device.lifetimes.holder[lifetime];
    if (link == 0) continue;
    const std::uint64_t bytes = trace.lifetime_bytes(device, lifetime);
    Part& part = by_chain[link];
    ++part.count;
    part.bytes += bytes;
    if (is_of_model(trace, device, lifetime)) part.of_model += bytes;
  }
  // Each walk has its own links: one holder may have several rows, of which the last counts.
  std::map<std::uint32_t, Holder> holders;      // by identity
  std::map<std::uint32_t, std::uint64_t> most;  // of one chain
  for (const auto& [link, part] : by_chain) {
    const std::uint32_t row = index.holder(link);
    const std::uint32_t identity = index.identity(row);
    Holder& holder = holders[identity];
    if (row > holder.link) {
      holder.link = row;
      holder.cut = index.cut(row);
      holder.has_grown = index.has_grown(row);
      most[identity] = 0;
    }
    holder.count += part.count;
    holder.bytes += part.bytes;
    holder.of_model += part.of_model;
    if (part.bytes > most[identity]) {
      holder.example = link;
      most[identity] = part.bytes;
    }
  }
  std::vector<Holder> sorted;
  for (const auto& [identity, holder] : holders) sorted.push_back(holder);
  std::ranges::stable_sort(sorted, [](const Holder& a, const Holder& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.link < b.link;
  });
  return sorted;
}

}  // namespace plimsoll::analysis::holders
