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

const char* to_string(Phase phase) {
  switch (phase) {
    case Phase::kOther:
      return "other";
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kOptimizer:
      return "optimizer";
    case Phase::kData:
      return "data";
  }
  return "other";
}

void Events::make_room(std::size_t count) {
  const std::size_t wanted = size() + count;
  const auto grow = [&](auto& column) {
    if (column.capacity() < wanted) column.reserve(std::max(wanted, 2 * column.capacity()));
  };
  grow(action);
  grow(address);
  grow(size_bytes);
  grow(time_ns);
  grow(stack);
}

std::size_t Events::memory_bytes() const {
  return action.memory_bytes() + address.memory_bytes() + size_bytes.memory_bytes() +
         time_ns.memory_bytes() + stream.memory_bytes() + stack.memory_bytes() +
         pool.memory_bytes() + category.memory_bytes() + op.memory_bytes() +
         inner_op.memory_bytes() + forward_op.memory_bytes() + layer.memory_bytes() +
         tensor.memory_bytes() + phase.memory_bytes() + flags.memory_bytes() +
         compile_context.memory_bytes() + user_metadata.memory_bytes() +
         slack_bytes.memory_bytes() + shortage.memory_bytes();
}

}  // namespace plimsoll::model
