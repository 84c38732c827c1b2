// The line a stack is charged to: the innermost Python frame of the user's own code
// (docs/attribution.md, docs/decisions/0013). Installed packages and the standard library are used
// only if there is no such frame, generated code (torch.compile's cache, <frozen ...>) only if
// there is neither, torch never. Computed once per distinct stack.
//
// In recordings of programs without Python (Trace::has_native_lines), a stack is charged to the
// innermost frame outside CUDA's own libraries; its file is a shared library or the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/frame_origin.h"
#include "model/trace.h"

namespace plimsoll::model {

// In its order, best first: a stack is charged to the innermost of its best frames.
using base::FrameOrigin;
using base::origin_of;

// Why a stack has no line.
enum class NoLine : std::uint8_t {
  kHasLine,
  kNotRecorded,       // nothing was recorded (stacks off, or the block is older than the recording)
  kAutograd,          // native frames of an autograd thread: backward runs without Python frames
  kNativeOnly,        // native or torch frames only
  kLibraryWorkspace,  // a library allocated it for itself (workspace_stack.h)
};

class UserLines {
 public:
  explicit UserLines(const Trace& trace);

  // Valid if why(stack) is kHasLine.
  FrameId frame(StackId stack) const { return lines_[stack.index()].frame; }
  NoLine why(StackId stack) const { return lines_[stack.index()].why; }
  // Groups by line without creating labels: ids run from 0 to line_count(), and two stacks have the
  // same id if they have the same file, line and function, or the same reason for having no line.
  LineId line(StackId stack) const { return lines_[stack.index()].id; }
  // Whether the line called a package or the standard library, which then allocated.
  bool is_in_package(StackId stack) const { return lines_[stack.index()].is_in_package; }
  std::size_t line_count() const { return examples_.size(); }
  std::string label(LineId line) const { return label(examples_[line.index()]); }

  // The shared library (or program) that the stack is charged to; empty if it is charged to a
  // Python line or to none.
  std::string_view library(StackId stack) const;

  // "train.py:42 (forward)": the path shortened to its last two folders; or the reason in brackets,
  // such as "[backward, no Python frame]". Equal labels mean the same file, line and function, or
  // the same reason.
  std::string label(StackId stack) const;

  // For a line in a module's forward, the label of the innermost line of the user's code outside
  // any forward that leads to it; empty for other lines and if there is none.
  std::string caller(StackId stack) const;

 private:
  struct Line {
    FrameId frame;
    NoLine why = NoLine::kNotRecorded;
    LineId id;
    bool is_in_package = false;
  };
  std::string frame_label(FrameId frame) const;
  void number_lines();

  const Trace& trace_;
  std::vector<Line> lines_;        // by stack
  std::vector<StackId> examples_;  // by line: an example stack charged to it
};

// The operator of a stack: the outermost native frame of the form at::_ops::NAME::call or
// torch::autograd::NAMEBackward..., as "aten::NAME" / "NAMEBackward0"; empty if there is none.
std::string operator_of(const Trace& trace, StackId stack);

}  // namespace plimsoll::model
