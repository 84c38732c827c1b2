// The stacks of libraries' workspaces, which belong to no line of the program: those with the
// function that allocates a workspace, and one that replaces all others.
#pragma once

#include <span>
#include <string_view>

#include "model/stacks.h"
#include "model/strings.h"

namespace plimsoll::model {

// The only frame of the stack that replaces others, and the label of the line of all.
inline constexpr std::string_view kWorkspaceFrame = "[library workspace]";

// Functions of PyTorch that allocate a workspace for cuBLAS or cuBLASLt.
constexpr bool is_workspace_frame(std::string_view function) {
  return function == kWorkspaceFrame ||
         function.find("getCurrentCUDABlasHandle") != std::string_view::npos ||
         function.find("getCUDABlasLtWorkspace") != std::string_view::npos;
}

inline StackId workspace_stack(StringTable& strings, StackTable& stacks) {
  Frame frame;
  frame.function = strings.intern(kWorkspaceFrame);
  frame.line = kUnknownLine;
  const FrameId id = stacks.intern_frame(frame);
  return stacks.intern_stack(std::span(&id, 1));
}

}  // namespace plimsoll::model
