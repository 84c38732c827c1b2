#include "model/events.h"

#include <algorithm>

namespace plimsoll::model {

const char* to_string(Action action) {
  switch (action) {
    case Action::kAlloc:
      return "alloc";
    case Action::kFreeRequested:
      return "free_requested";
    case Action::kFreeCompleted:
      return "free_completed";
    case Action::kSegmentAlloc:
      return "segment_alloc";
    case Action::kSegmentFree:
      return "segment_free";
    case Action::kSegmentMap:
      return "segment_map";
    case Action::kSegmentUnmap:
      return "segment_unmap";
    case Action::kSnapshot:
      return "snapshot";
    case Action::kOom:
      return "oom";
    case Action::kAnnotate:
      return "annotate";
    case Action::kFree:
      return "free";
    case Action::kUnknown:
      return "unknown";
  }
  return "unknown";
}

void Events::make_room() {
  const std::size_t room = std::max<std::size_t>(64, 2 * size());
  const auto reserve = [&](auto& column) { column.reserve(room); };
  reserve(action);
  reserve(address);
  reserve(size_bytes);
  reserve(time_ns);
  reserve(site);
  room_ = room;
}

void Events::append(const Events& from, std::size_t first, std::size_t count) {
  const std::size_t before = size();
  const auto append = [&](auto& to, const auto& column) { to.append(column.span(first, count)); };
  append(action, from.action);
  append(address, from.address);
  append(size_bytes, from.size_bytes);
  append(time_ns, from.time_ns);
  append(site, from.site);
  from.user_metadata.append_to(user_metadata, before, first, count);
  from.padding_bytes.append_to(padding_bytes, before, first, count);
  from.shortage.append_to(shortage, before, first, count);
  room_ = size();
}

void Events::truncate(std::size_t count) {
  if (count >= size()) return;
  const auto cut = [&](auto& column) {
    column.resize(count);
    column.shrink_to_fit();
  };
  cut(action);
  cut(address);
  cut(size_bytes);
  cut(time_ns);
  cut(site);
  user_metadata.truncate(count);
  padding_bytes.truncate(count);
  shortage.truncate(count);
  room_ = size();
}

Events Events::split_off(std::size_t first) {
  if (first == 0) return std::exchange(*this, Events{});
  Events rest;
  rest.append(*this, first, size() - first);
  truncate(first);
  return rest;
}

std::size_t Events::memory_bytes() const {
  return action.memory_bytes() + address.memory_bytes() + size_bytes.memory_bytes() +
         time_ns.memory_bytes() + site.memory_bytes() + user_metadata.memory_bytes() +
         padding_bytes.memory_bytes() + shortage.memory_bytes();
}

}  // namespace plimsoll::model
