#include "python/holders/cut.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "python/holders/graph_edges.h"

namespace plimsoll::libtorch::holders {
namespace {

constexpr std::size_t kMostHolders = 16;  // a bit of Entry::cuts each

std::uint64_t bytes_of(const Entry& entry) {
  const auto& storage = *static_cast<const c10::StorageImpl*>(entry.address);
  return storage.sym_nbytes().is_symbolic() ? 0 : storage.nbytes();
}

// ---- which links are holders --------------------------------------------------------------------

bool is_graph_link(plimsoll_link_kind kind) {
  return kind == PLIMSOLL_LINK_GRAD_FN || kind == PLIMSOLL_LINK_NODE || kind == PLIMSOLL_LINK_SAVED;
}

bool is_named(const Link& link) {
  return link.kind == PLIMSOLL_LINK_ATTRIBUTE || link.kind == PLIMSOLL_LINK_ITEM ||
         link.kind == PLIMSOLL_LINK_LOCAL || link.kind == PLIMSOLL_LINK_CLOSURE ||
         link.kind == PLIMSOLL_LINK_DEFAULT || link.kind == PLIMSOLL_LINK_HOOK ||
         link.kind == PLIMSOLL_LINK_PART;
}

// The number of elements in each container that the link stands for.
double fan_of(const Link& link) {
  return link.is_fan && link.containers > 0 ? static_cast<double>(link.references) / link.containers
                                            : 0;
}

// The parts of the program that may be edited: the containers of several elements on the chain, of
// which the report chooses one; without any, the hook or the exception; without those, the last
// name before the tensor or, of a parameter, the whole model.
std::vector<std::uint32_t> holders_of(const Chains& chains, std::uint32_t link) {
  std::vector<std::uint32_t> path;
  for (; link != 0; link = chains[link].parent) path.push_back(link);
  std::ranges::reverse(path);
  if (chains[path.front()].kind == PLIMSOLL_LINK_CYCLE) return {path.front()};
  const auto graph = std::ranges::find_if(
      path, [&](std::uint32_t each) { return is_graph_link(chains[each].kind); });
  if (graph != path.begin()) path.erase(graph, path.end());
  std::vector<std::uint32_t> containers;
  std::uint32_t hook = 0, named = path.front(), model = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const Link& each = chains[path[i]];
    if (fan_of(each) > 1) containers.push_back(path[i]);
    const bool is_in_hooks =
        i > 0 && chains[path[i - 1]].kind == PLIMSOLL_LINK_HOOK && each.kind == PLIMSOLL_LINK_ITEM;
    if (is_in_hooks || each.kind == PLIMSOLL_LINK_TRACEBACK) {
      if (hook == 0) hook = path[i];
    }
    const bool is_part = each.kind == PLIMSOLL_LINK_PART && i > 0;
    if (is_part && model == 0) model = path[i - 1];
    if (is_named(each)) named = is_part ? model : path[i];
  }
  if (containers.empty()) containers.push_back(hook != 0 ? hook : named);
  return containers;
}

struct Holder {
  std::uint32_t link = 0;
  std::uint64_t bytes = 0;            // of storages below it
  std::uint64_t parameter_bytes = 0;  // of parameters
};

std::vector<Holder> choose_holders(const Table& table, const Chains& chains) {
  std::vector<std::vector<std::uint32_t>> holders(chains.size() + 1);  // by link
  std::unordered_map<std::uint32_t, Holder> found;
  for (const std::uint32_t storage : chains.storages()) {
    const Entry& entry = table[storage];
    if (entry.link == 0) continue;
    std::vector<std::uint32_t>& links = holders[entry.link];
    if (links.empty()) links = holders_of(chains, entry.link);
    for (const std::uint32_t link : links) {
      Holder& holder = found[link];
      holder.link = link;
      (entry.has(kParameter) ? holder.parameter_bytes : holder.bytes) += bytes_of(entry);
    }
  }
  std::vector<Holder> chosen;
  for (const auto& [link, holder] : found) chosen.push_back(holder);
  std::ranges::sort(chosen, [](const Holder& a, const Holder& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    return a.parameter_bytes != b.parameter_bytes ? a.parameter_bytes > b.parameter_bytes
                                                  : a.link < b.link;
  });
  if (chosen.size() > kMostHolders) chosen.resize(kMostHolders);
  return chosen;
}

// ---- one cut ------------------------------------------------------------------------------------

class Cut final : public References {
 public:
  Cut(Walk& walk, Chains& chains, std::uint32_t link, std::uint16_t bit,
      std::vector<std::uint32_t> below)
      : table_(walk.table()),
        walk_(walk),
        chains_(chains),
        link_(link),
        bit_(bit),
        below_(std::move(below)) {}

  plimsoll_holder_cut run() {
    plimsoll_holder_cut result{};
    result.link = link_;
    for (const std::uint32_t each : below_) {
      table_[each].count = 0;
      table_[each].clear(kLive);
    }
    remove_references();
    if (count_references()) mark_retained(result);
    for (const std::uint32_t each : below_) {
      const Entry& entry = table_[each];
      if (entry.kind != Kind::kStorage || !entry.has(kOnChain)) continue;
      (entry.has(kLive) ? result.left_count : result.freed_count) += 1;
      (entry.has(kLive) ? result.left_bytes : result.freed_bytes) += bytes_of(entry);
    }
    return result;
  }

  void object(PyObject* target) override { meet(target); }
  void thing(const void* target, Kind /*kind*/) override { meet(target); }

 private:
  bool is_below(std::uint32_t entry) const { return (table_[entry].cuts & bit_) != 0; }

  void meet(const void* target) {
    const std::uint32_t number = table_.find(target);
    if (number == 0 || !is_below(number)) return;
    if (is_spreading_) {
      set_live(number);
    } else {
      ++table_[number].count;
    }
  }

  void set_live(std::uint32_t number) {
    Entry& entry = table_[number];
    if (entry.has(kLive)) return;
    entry.set(kLive);
    live_.push_back(number);
    if (entry.kind == Kind::kStorage) ++live_storages_;
  }

  // The references that the edit of the program removes: those of whole containers, or one.
  void remove_references() {
    std::unordered_set<std::uint32_t> containers;
    for (const std::uint32_t each : below_) {
      const Entry& entry = table_[each];
      if (!entry.has(kStartsLink) || entry.link != link_) continue;
      const bool is_root = entry.parent == 0;
      if (is_root || !chains_[link_].is_fan) {
        // A root that native code retains keeps that reference; a cycle has none from outside.
        if (!is_root || chains_[link_].kind != PLIMSOLL_LINK_NATIVE) ++table_[each].count;
      } else if (!is_below(entry.parent)) {
        containers.insert(entry.parent);
      }
    }
    for (const std::uint32_t each : containers) for_each_reference(table_[each], *this);
  }

  bool count_references() {
    std::size_t done = 0;
    for (const std::uint32_t each : below_) {
      if ((++done & 1023U) == 0 && walk_.is_late()) {
        for (const std::uint32_t all : below_) table_[all].set(kLive);
        return false;
      }
      for_each_reference(table_[each], *this);
    }
    return true;
  }

  // Marks what has other references, first those of native code, and all that it refers to.
  void mark_retained(plimsoll_holder_cut& result) {
    is_spreading_ = true;
    for (const std::uint32_t each : below_) {
      const Entry& entry = table_[each];
      const std::int64_t references = references_to(entry);
      if (references > entry.count && references > entry.seen) set_live(each);
    }
    spread();
    result.is_native = live_storages_ != 0 ? 1 : 0;
    for (const std::uint32_t each : below_) {
      const Entry& entry = table_[each];
      if (entry.seen <= entry.count || references_to(entry) <= entry.count) continue;
      const std::size_t before = live_storages_;
      set_live(each);
      spread();
      if (live_storages_ > before && result.other == 0) result.other = other_link(each);
    }
  }

  std::uint32_t other_link(std::uint32_t entry) {
    const std::uint32_t from = table_[entry].other;
    if (from == 0 || is_below(from) || table_[from].has(kOwn)) return 0;
    return chains_.link_of_reference(from, entry);
  }

  void spread() {
    while (!live_.empty()) {
      const std::uint32_t each = live_.back();
      live_.pop_back();
      for_each_reference(table_[each], *this);
    }
  }

  Table& table_;
  Walk& walk_;
  Chains& chains_;
  std::uint32_t link_;
  std::uint16_t bit_;
  std::vector<std::uint32_t> below_;
  std::vector<std::uint32_t> live_;
  std::size_t live_storages_ = 0;
  bool is_spreading_ = false;
};

}  // namespace

std::vector<plimsoll_holder_cut> cut_holders(Walk& walk, Chains& chains) {
  Table& table = walk.table();
  const std::vector<Holder> holders = choose_holders(table, chains);
  std::vector<std::uint16_t> bits(chains.size() + 1);
  for (std::size_t i = 0; i < holders.size(); ++i) {
    bits[holders[i].link] = static_cast<std::uint16_t>(1U << i);
  }
  std::vector<std::vector<std::uint32_t>> below(holders.size());
  for (std::uint32_t i = 1; i <= table.size(); ++i) {
    Entry& entry = table[i];
    if (entry.parent != 0) entry.cuts = table[entry.parent].cuts;
    if (entry.has(kStartsLink)) entry.cuts |= bits[entry.link];
    for (std::size_t k = 0; entry.cuts >> k != 0; ++k) {
      if ((entry.cuts >> k & 1U) != 0) below[k].push_back(i);
    }
  }
  std::vector<plimsoll_holder_cut> cuts;
  for (std::size_t i = 0; i < holders.size() && !walk.is_late(); ++i) {
    Cut cut(walk, chains, holders[i].link, static_cast<std::uint16_t>(1U << i),
            std::move(below[i]));
    cuts.push_back(cut.run());
  }
  return cuts;
}

}  // namespace plimsoll::libtorch::holders
