// Frames and stacks, each distinct one stored once. A stack lists its frames innermost first, as in
// PyTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/column.h"
#include "model/ids.h"
#include "model/row_set.h"

namespace plimsoll::model {

// The line is unknown: PyTorch writes -1, as an unsigned number.
inline constexpr std::uint32_t kUnknownLine = std::numeric_limits<std::uint32_t>::max();

struct Frame {
  StringId file;
  StringId function;
  std::uint32_t line = 0;
  std::uint32_t notes = 0;  // row in StackTable's notes; 0: none

  friend bool operator==(const Frame&, const Frame&) = default;
};

// Additional data of a frame, as ordered key-value pairs: the fx_* keys of torch.compile.
using FrameNotes = std::vector<std::pair<StringId, StringId>>;

class StackTable {
 public:
  StackTable();

  FrameId intern_frame(Frame frame);
  StackId intern_stack(std::span<const FrameId> frames);
  std::uint32_t add_notes(FrameNotes notes);

  const Frame& frame(FrameId id) const { return frames_[id.index()]; }
  std::span<const FrameId> frames(StackId id) const {
    return frame_ids_.span(starts_[id.index()], starts_[id.index() + 1] - starts_[id.index()]);
  }
  const FrameNotes& notes(std::uint32_t row) const { return notes_[row]; }
  // The columns themselves: stack s is all_frame_ids()[starts()[s] .. starts()[s + 1]).
  std::span<const FrameId> all_frame_ids() const { return frame_ids_.span(); }
  std::span<const std::uint64_t> starts() const { return starts_.span(); }

  std::size_t frame_count() const { return frames_.size(); }
  std::size_t stack_count() const { return starts_.size() - 1; }  // including the two empty ones
  std::size_t memory_bytes() const;

 private:
  std::uint64_t hash_of_frame(std::uint32_t row) const;
  std::uint64_t hash_of_stack(std::uint32_t row) const;

  base::Column<Frame> frames_;
  base::Column<FrameId> frame_ids_;     // the stacks, one after another
  base::Column<std::uint64_t> starts_;  // one more element than there are stacks
  std::vector<FrameNotes> notes_;
  RowSet frame_rows_;
  RowSet stack_rows_;
};

// Stack 0 means "none was recorded", stack 1 "one was recorded and it is empty".
inline constexpr StackId kNoStack{0};
inline constexpr StackId kEmptyStack{1};

}  // namespace plimsoll::model
