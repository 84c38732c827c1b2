// The stack that stands for all workspaces of libraries, which belong to no line of the program.
#pragma once

#include <span>
#include <string_view>

#include "model/stacks.h"
#include "model/strings.h"

namespace plimsoll::model {

// Its only frame, and the label of its line.
inline constexpr std::string_view kWorkspaceFrame = "[library workspace]";

inline StackId workspace_stack(StringTable& strings, StackTable& stacks) {
  Frame frame;
  frame.function = strings.intern(kWorkspaceFrame);
  frame.line = kUnknownLine;
  const FrameId id = stacks.intern_frame(frame);
  return stacks.intern_stack(std::span(&id, 1));
}

}  // namespace plimsoll::model
