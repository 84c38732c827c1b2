#include "model/stacks.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace plimsoll::model {

template <typename Equal>
std::uint32_t* StackTable::RowSet::find(std::uint64_t hash, Equal&& equal) {
  if (slots_.empty()) return nullptr;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask; slots_[at] != kNone; at = (at + 1) & mask) {
    if (equal(slots_[at])) return &slots_[at];
  }
  return nullptr;
}

void StackTable::RowSet::insert(std::uint64_t hash, std::uint32_t row) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at] != kNone) at = (at + 1) & mask;
  slots_[at] = row;
  ++used_;
}

template <typename HashOf>
void StackTable::RowSet::grow(HashOf&& hash_of) {
  std::vector<std::uint32_t> old(std::max<std::size_t>(64, slots_.size() * 2), kNone);
  old.swap(slots_);
  used_ = 0;
  for (std::uint32_t row : old) {
    if (row != kNone) insert(hash_of(row), row);
  }
}

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
  if (auto* row = frame_rows_.find(hash, [&](std::uint32_t r) { return frames_[r] == frame; })) {
    return FrameId{*row};
  }
  if (frame_rows_.must_grow()) frame_rows_.grow([&](auto row) { return hash_of_frame(row); });
  const auto row = static_cast<std::uint32_t>(frames_.size());
  frames_.push_back(frame);
  frame_rows_.insert(hash, row);
  return FrameId{row};
}

StackId StackTable::intern_stack(std::span<const FrameId> ids) {
  if (ids.empty()) return kEmptyStack;
  const std::uint64_t hash = base::hash_bytes(ids.data(), ids.size_bytes());
  auto same = [&](std::uint32_t row) { return std::ranges::equal(frames(StackId{row}), ids); };
  if (auto* row = stack_rows_.find(hash, same)) return StackId{*row};
  if (stack_rows_.must_grow()) stack_rows_.grow([&](auto row) { return hash_of_stack(row); });
  const auto row = static_cast<std::uint32_t>(starts_.size() - 1);
  frame_ids_.append(ids);
  starts_.push_back(frame_ids_.size());
  stack_rows_.insert(hash, row);
  return StackId{row};
}

std::uint32_t StackTable::add_notes(FrameNotes notes) {
  // Few distinct ones: each belongs to a compiled graph node.
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
