#include "model/stacks.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace plimsoll::model {

StackTable::StackTable() {
  starts_.push_back(0);  // stack 0: none
  starts_.push_back(0);  // stack 1: empty
  starts_.push_back(0);
  notes_.emplace_back();
}

std::uint64_t StackTable::hash_of_frame(std::uint32_t row) const {
  return base::hash_bytes(&frames_[row], sizeof(Frame));
}

std::uint64_t StackTable::hash_of_stack(std::uint32_t row) const {
  const auto ids = frames(StackId{row});
  return base::hash_bytes(ids.data(), ids.size_bytes());
}

FrameId StackTable::intern_frame(Frame frame) {
  const std::uint64_t hash = base::hash_bytes(&frame, sizeof frame);
  const auto is_same = [&](std::uint32_t row) { return frames_[row] == frame; };
  if (const auto known = frame_rows_.find(hash, is_same); known != kNone) return FrameId{known};
  const auto row = static_cast<std::uint32_t>(frames_.size());
  frame_rows_.insert(hash, row, [&](std::uint32_t old) { return hash_of_frame(old); });
  frames_.push_back(frame);
  return FrameId{row};
}

StackId StackTable::intern_stack(std::span<const FrameId> ids) {
  if (ids.empty()) return kEmptyStack;
  const std::uint64_t hash = base::hash_bytes(ids.data(), ids.size_bytes());
  auto is_same = [&](std::uint32_t row) { return std::ranges::equal(frames(StackId{row}), ids); };
  if (const auto known = stack_rows_.find(hash, is_same); known != kNone) return StackId{known};
  const auto row = static_cast<std::uint32_t>(starts_.size() - 1);
  stack_rows_.insert(hash, row, [&](std::uint32_t old) { return hash_of_stack(old); });
  frame_ids_.append(ids);
  starts_.push_back(frame_ids_.size());
  return StackId{row};
}

std::uint32_t StackTable::add_notes(FrameNotes notes) {
  // A linear search suffices: there are few distinct notes, because each belongs to a compiled
  // graph node.
  for (std::size_t row = 0; row < notes_.size(); ++row) {
    if (notes_[row] == notes) return static_cast<std::uint32_t>(row);
  }
  notes_.push_back(std::move(notes));
  return static_cast<std::uint32_t>(notes_.size() - 1);
}

std::size_t StackTable::memory_bytes() const {
  return frames_.memory_bytes() + frame_ids_.memory_bytes() + starts_.memory_bytes() +
         frame_rows_.memory_bytes() + stack_rows_.memory_bytes();
}

}  // namespace plimsoll::model
