#include "readers/torch_snapshot/pickle_cycles.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::readers::torch_snapshot {
namespace {

enum class Seen : std::uint8_t { kNever, kOpen, kDone };

struct Open {
  Value container;
  std::size_t next = 0;  // index of its next item
};

// The item, or null after the last one. A dict's items are key, value, key, value, ... .
const Value* item_at(const PickleArena& arena, const Open& open) {
  if (open.container.tag != Tag::kDict) {
    const Items& items = arena.lists[open.container.bits];
    return open.next < items.size() ? &items[open.next] : nullptr;
  }
  const Entries& entries = arena.dicts[open.container.bits];
  if (open.next / 2 >= entries.size()) return nullptr;
  const auto& [key, value] = entries[open.next / 2];
  return open.next % 2 == 0 ? &key : &value;
}

}  // namespace

bool contains_itself(const Value& root, const PickleArena& arena) {
  std::vector<Seen> lists(arena.lists.size(), Seen::kNever);
  std::vector<Seen> dicts(arena.dicts.size(), Seen::kNever);
  const auto seen = [&](const Value& value) -> Seen& {
    return value.tag == Tag::kDict ? dicts[value.bits] : lists[value.bits];
  };
  const auto is_container = [](const Value& value) {
    return value.tag == Tag::kList || value.tag == Tag::kTuple || value.tag == Tag::kDict;
  };

  std::vector<Open> path;
  const auto enter = [&](const Value& value) {
    seen(value) = Seen::kOpen;
    path.push_back(Open{value});
  };
  if (is_container(root)) enter(root);
  while (!path.empty()) {
    const Value* item = item_at(arena, path.back());
    if (item == nullptr) {
      seen(path.back().container) = Seen::kDone;
      path.pop_back();
      continue;
    }
    ++path.back().next;
    if (!is_container(*item)) continue;
    if (seen(*item) == Seen::kOpen) return true;
    if (seen(*item) == Seen::kNever) enter(*item);
  }
  return false;
}

}  // namespace plimsoll::readers::torch_snapshot
