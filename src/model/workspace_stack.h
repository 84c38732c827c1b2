// Recognizes and creates the stacks of library workspaces, which are charged to no line of the
// program.
#pragma once

#include <span>
#include <string_view>

#include "model/stacks.h"
#include "model/strings.h"

namespace plimsoll::model {

// The only frame of the stack that name_workspaces() assigns, and the label of every line that such
// stacks are charged to.
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
