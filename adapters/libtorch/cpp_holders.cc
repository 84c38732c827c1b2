#include "cpp_holders.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "attachment.h"
#include "cpp_walk.h"
#include "plimsoll/native_stacks_c.h"
#include "plimsoll/recorder.h"
#include "thread_state.h"

namespace plimsoll::libtorch::cpp_holders {
namespace {

// As in Python: a walk of a part proves nothing (python/holders/walk.h).
constexpr std::chrono::milliseconds kMostTime{1500};

// The compiler's name is in the debug information, for code and not for memory.
std::string name_of_local(const Root& root) {
  if (root.type.empty()) return {};
  char text[64];
  std::snprintf(text, sizeof text, "a local variable at +0x%zx", root.offset);
  return text;
}

std::uint32_t text(std::string_view name) { return name.empty() ? 0 : detail::name_of(name); }

// Makes links of what a walk has reached. Blocks without names are part of what leads to them.
class Links {
 public:
  explicit Links(Walk& walk) : walk_(walk) {
    std::ranges::sort(walk.references, {}, &Reference::to);
  }

  void build() {
    std::vector<std::uint32_t> last(walk_.storages.size());
    for (std::size_t i = 0; i < last.size(); ++i) last[i] = link_of(walk_.storages[i]);
    if (walk_.end == PLIMSOLL_WALK_COMPLETE) {
      mark_retained();
      cut();
    }
    number();
    for (std::size_t i = 0; i < last.size(); ++i) {
      if (last[i] == 0) continue;
      const Storage& storage = walk_.storages[i];
      plimsoll_held row{};
      row.address = storage.address;
      row.link = numbers_[last[i]];
      row.device = storage.is_cuda ? recorder().device(PLIMSOLL_DEVICE_CUDA, storage.device) : kCpu;
      held.push_back(row);
    }
  }

  std::vector<plimsoll_holder_link> links;
  std::vector<plimsoll_held> held;
  std::vector<plimsoll_holder_cut> cuts;

 private:
  using Key = std::tuple<std::uint32_t, int, std::uint32_t, std::uint32_t>;

  std::uint32_t intern(std::uint32_t parent, plimsoll_link_kind kind, std::string_view name,
                       std::string_view type = {}, std::string_view file = {},
                       std::uint32_t line = 0) {
    plimsoll_holder_link link{};
    link.parent = parent;
    link.kind = static_cast<std::uint8_t>(kind);
    link.name = text(name);
    link.type = text(type);
    link.file = text(file);
    link.line = line;
    const auto [known, is_new] =
        keys_.try_emplace(Key{parent, kind, link.name, link.type}, all_.size() + 1);
    if (is_new) all_.push_back(link);
    return static_cast<std::uint32_t>(known->second);
  }

  std::uint32_t link_of_frame(std::uint32_t number) {
    struct Place {
      std::string function, file;
      std::uint32_t line = 0;
    } place;
    // Functions of libraries are part of the user's function that calls them.
    for (; number < walk_.roots.size() && walk_.roots[number].code != 0 && place.function.empty();
         ++number) {
      plimsoll_user_code(
          walk_.roots[number].code,
          [](void* to, const char* function, const char* file, std::uint32_t line) {
            *static_cast<Place*>(to) = {function, line != 0 ? file : "", line};
          },
          &place);
    }
    place.function.resize(std::min(place.function.size(), place.function.find('(')));
    if (place.function.empty()) place.function = "an unknown function";
    return intern(0, PLIMSOLL_LINK_FRAME, place.function, {}, place.file, place.line);
  }

  // Of a part that no chain contains: the link of the whole.
  std::uint32_t link_of_root(std::uint32_t number) {
    if (const auto known = root_links_.find(number); known != root_links_.end()) {
      return known->second;
    }
    if (walk_.roots[number].whole != 0) return link_of_root(walk_.roots[number].whole);
    const Root& root = walk_.roots[number];
    std::uint32_t link = 0;
    switch (root.kind) {
      case Root::Kind::kVariable:
        link = intern(0, PLIMSOLL_LINK_MODULE, root.object.empty() ? "__main__" : root.object);
        link = intern(link, PLIMSOLL_LINK_ATTRIBUTE, root.name, root.type);
        break;
      case Root::Kind::kLocal:
        link =
            root.code != 0 ? link_of_frame(root.frame) : intern(0, PLIMSOLL_LINK_FRAME, root.name);
        link = intern(link, PLIMSOLL_LINK_LOCAL, name_of_local(root), root.type);
        break;
      case Root::Kind::kNative:
        link = intern(0, PLIMSOLL_LINK_NATIVE, {}, root.object);
        break;
      case Root::Kind::kLost:
        link = intern(0, PLIMSOLL_LINK_LOST, {});
        break;
    }
    return root_links_[number] = link;
  }

  // The last link of the chain to a storage; 0: there is none.
  std::uint32_t link_of(const Storage& storage) {
    if (walk_.heap[storage.block].parent == 0) return 0;
    std::vector<std::uint32_t> path;  // blocks, from the root on
    std::uint32_t at = storage.block + 1;
    for (; (at & Walk::kRootBit) == 0; at = walk_.heap[at - 1].parent) path.push_back(at - 1);
    std::ranges::reverse(path);
    std::uint32_t link = link_of_root(at & ~Walk::kRootBit);
    std::uint32_t meta = kNoBlock;  // of the last tensor, if what follows belongs to it
    bool has_item = false;
    std::string first_node, last_node;
    const bool has_items = walk_.roots[at & ~Walk::kRootBit].kind == Root::Kind::kVariable ||
                           walk_.roots[at & ~Walk::kRootBit].kind == Root::Kind::kLocal;
    for (const std::uint32_t each : path) {
      const Type& type = walk_.types[walk_.heap[each].type];
      if (meta != kNoBlock && is_hook(each) && first_node.empty()) {
        link = intern(link, PLIMSOLL_LINK_HOOK, "hooks");
        has_item = false;
        meta = kNoBlock;
      }
      if (type.kind == Kind::kNode) {
        last_node = type.name;
        if (first_node.empty()) first_node = type.name;
      } else if (type.kind == Kind::kMeta) {
        meta = each;
      } else if (type.kind == Kind::kObject && first_node.empty() && meta == kNoBlock) {
        link = intern(link, PLIMSOLL_LINK_OTHER, {}, type.name);
        has_item = false;
      } else if (type.kind == Kind::kTensor || type.kind == Kind::kStorage) {
        if (!first_node.empty()) continue;
        if (meta != kNoBlock) {
          link = link_of_meta(link, meta, each);
          has_item = true;
          meta = kNoBlock;
        }
        if (!std::exchange(has_item, true) && has_items) {
          link = intern(link, PLIMSOLL_LINK_ITEM, {}, "Tensor");
          items_[link].insert(each);
        }
      }
      if (first_node.empty()) root_links_.try_emplace(walk_.heap[each].owner, link);
    }
    if (first_node.empty()) return link;
    link = intern(link, PLIMSOLL_LINK_GRAD_FN, {}, first_node);
    if (last_node != first_node) link = intern(link, PLIMSOLL_LINK_NODE, {}, last_node);
    return intern(link, PLIMSOLL_LINK_SAVED, {}, "Tensor");
  }

  // Whether a block begins the hooks of a tensor.
  bool is_hook(std::uint32_t number) const {
    const std::uint32_t parent = walk_.heap[number].parent;
    return (parent & Walk::kRootBit) == 0 && walk_.kind_of(parent - 1) == Kind::kMeta &&
           walk_.kind_of(number) == Kind::kNone;
  }

  // What a tensor has for autograd: its gradient, or the tensor that it is a view of.
  std::uint32_t link_of_meta(std::uint32_t link, std::uint32_t meta, std::uint32_t tensor) {
    alignas(torch::autograd::AutogradMeta) std::byte bytes[sizeof(torch::autograd::AutogradMeta)];
    const auto* copy = reinterpret_cast<torch::autograd::AutogradMeta*>(bytes);
    const auto offset = reinterpret_cast<const std::byte*>(&copy->grad_) - bytes;
    const auto gradient =
        read_value<std::uintptr_t>(walk_.heap[meta].begin + static_cast<std::uintptr_t>(offset));
    return intern(
        link, gradient == walk_.heap[tensor].begin ? PLIMSOLL_LINK_GRADIENT : PLIMSOLL_LINK_BASE,
        {}, "Tensor");
  }

  // One item of a container is named as the container. Numbers the links that are left.
  void number() {
    numbers_.resize(all_.size() + 1);
    for (std::uint32_t i = 1; i <= all_.size(); ++i) {
      plimsoll_holder_link link = all_[i - 1];
      const auto items = items_.find(i);
      const std::uint32_t parent = numbers_[link.parent];
      if (items != items_.end() && items->second.size() == 1) {
        numbers_[i] = parent;
        continue;
      }
      if (items != items_.end() && parent != 0) links[parent - 1].length = items->second.size();
      link.parent = parent;
      links.push_back(link);
      numbers_[i] = static_cast<std::uint32_t>(links.size());
    }
    for (plimsoll_holder_cut& each : cuts) {
      each.link = numbers_[each.link];
      each.other = numbers_[each.other];
    }
  }

  // What the variables alone retain.
  void cut() {
    std::map<std::uint32_t, plimsoll_holder_cut> by_owner;
    for (const Storage& each : walk_.storages) {
      const Block& block = walk_.heap[each.block];
      const auto link = root_links_.find(block.owner);
      if (block.parent == 0 || !may_cut(block.owner) || link == root_links_.end()) continue;
      plimsoll_holder_cut& cut = by_owner[block.owner];
      cut.link = link->second;
      const bool is_retained = (block.flags & kRetained) != 0;
      (is_retained ? cut.left_count : cut.freed_count) += 1;
      (is_retained ? cut.left_bytes : cut.freed_bytes) += each.size_bytes;
      if (!is_retained || cut.other != 0) continue;
      if (const std::uint32_t other = other_owner(each.block); other != 0) {
        cut.other = link_of_root(other);
      } else {
        cut.is_native = 1;
      }
    }
    for (const auto& [owner, each] : by_owner) cuts.push_back(each);
  }

  bool may_cut(std::uint32_t owner) const {
    return walk_.roots[owner].kind == Root::Kind::kVariable ||
           walk_.roots[owner].kind == Root::Kind::kLocal;
  }
  std::uint32_t owner_of(std::uint32_t from) const {
    return (from & Walk::kRootBit) != 0 ? from & ~Walk::kRootBit : walk_.heap[from - 1].owner;
  }
  auto references_to(std::uint32_t block) const {
    return std::ranges::equal_range(walk_.references, block, {}, &Reference::to);
  }

  // Marks what is retained without its owner: what another variable refers to, what has references
  // that were not found below the owner, and what these lead to.
  void mark_retained() {
    const auto is_retained = [&](std::uint32_t number) {
      const Block& block = walk_.heap[number];
      if (owner_of(block.parent) != block.owner) return false;  // the part itself
      if ((block.flags & kSharedBy) != 0) return true;
      if ((block.parent & Walk::kRootBit) == 0 &&
          (walk_.heap[block.parent - 1].flags & kRetained) != 0) {
        return true;
      }
      if ((block.flags & kCounted) == 0) return false;
      std::uint64_t own = 0;
      for (const Reference& each : references_to(number)) {
        const bool is_root = (each.from & Walk::kRootBit) != 0;
        if (owner_of(each.from) != block.owner) continue;
        own += is_root || (walk_.heap[each.from - 1].flags & kRetained) == 0 ? 1 : 0;
      }
      return own < walk_.uses_of(number);
    };
    for (bool has_changed = true; std::exchange(has_changed, false);) {
      for (const std::uint32_t each : walk_.order) {
        Block& block = walk_.heap[each];
        if ((block.flags & kRetained) != 0 || !may_cut(block.owner) || !is_retained(each)) continue;
        block.flags |= kRetained;
        has_changed = true;
      }
    }
  }

  // Another variable that retains it; 0: none is known.
  std::uint32_t other_owner(std::uint32_t number) const {
    std::uint32_t local = 0;
    while (true) {
      const Block& block = walk_.heap[number];
      const auto known = walk_.other_owners.find(number);
      if (known != walk_.other_owners.end()) return known->second;
      for (const Reference& each : references_to(number)) {
        const std::uint32_t owner = owner_of(each.from);
        if (owner == block.owner || !may_cut(owner)) continue;
        if (walk_.roots[owner].kind == Root::Kind::kVariable) return owner;
        local = owner;  // perhaps: it may be left from an earlier call
      }
      if ((block.parent & Walk::kRootBit) != 0) return local;
      number = block.parent - 1;
    }
  }

  Walk& walk_;
  std::vector<plimsoll_holder_link> all_;
  std::map<Key, std::size_t> keys_;
  std::map<std::uint32_t, std::set<std::uint32_t>> items_;  // by link
  std::map<std::uint32_t, std::uint32_t> root_links_;       // by root
  std::vector<std::uint32_t> numbers_;                      // of links, without lone items
};

void find_above(std::uintptr_t stack) {
  const auto began = Walk::Clock::now();
  const auto walk = std::make_unique<Walk>(kMostTime, stack);
  walk->run();
  if (!walk->is_of_glibc && walk->end == PLIMSOLL_WALK_COMPLETE) return;
  Links links(*walk);
  links.build();
  plimsoll_holders found{};
  found.size_bytes = sizeof found;
  found.end = static_cast<std::uint8_t>(walk->end);
  found.objects = walk->order.size();
  found.nodes = walk->nodes;
  found.duration_ns =
      static_cast<std::uint64_t>(std::chrono::nanoseconds(Walk::Clock::now() - began).count());
  found.links = links.links.data();
  found.link_count = links.links.size();
  found.held = links.held.data();
  found.held_count = links.held.size();
  found.cuts = links.cuts.data();
  found.cut_count = links.cuts.size();
  recorder().holders(thread_state().context, &found);
}

std::mutex g_one_at_a_time;

}  // namespace

void find_holders() noexcept {
  const std::unique_lock lock(g_one_at_a_time, std::try_to_lock);
  if (!lock.owns_lock() || !is_attached() || !g_attachment.has_operators) return;
  if (plimsoll_has_added_filter() != 0) return;
  try {
    find_above(reinterpret_cast<std::uintptr_t>(PLIMSOLL_STACK_BASE));
  } catch (const std::exception&) {
    count_lost_detail();
  }
}

void find_at_exit() noexcept {
  static const bool kIsRegistered = g_attachment.is_for_process && std::atexit(find_holders) == 0;
  (void)kIsRegistered;
}

void find_wanted_holders() noexcept {
  constexpr int kShare = 100;  // of the time, walks that nobody asked for take at most one part
  static std::atomic<Walk::Clock::time_point> due{};
  const int wanted = recorder().wants_holders();
  if (wanted == PLIMSOLL_HOLDERS_NOT_WANTED) return;
  const auto began = Walk::Clock::now();
  if (wanted == PLIMSOLL_HOLDERS_OF_GROWTH && began < due.load()) return;
  find_holders();
  const auto ended = Walk::Clock::now();
  due = ended + kShare * (ended - began);
}

}  // namespace plimsoll::libtorch::cpp_holders
