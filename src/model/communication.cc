#include "model/communication.h"

#include <algorithm>
#include <array>

#include "model/user_line.h"

namespace plimsoll::model {
namespace {

constexpr std::array<std::string_view, 3> kFiles = {
    "/torch/nn/parallel/distributed.py", "/torch/distributed/fsdp/", "/torch/distributed/utils.py"};
// All Python code of torch calls operators through these files, so their frames are skipped.
constexpr std::array<std::string_view, 2> kPlumbing = {"/torch/_ops.py", "/torch/_library/"};

template <std::size_t kCount>
bool contains_any(std::string_view file, const std::array<std::string_view, kCount>& parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return file.find(part) != std::string_view::npos; });
}

}  // namespace

bool is_communication_op(std::string_view op) {
  return op.starts_with("fsdp::") || op.starts_with("RegisterPostBackwardFunction");
}

bool is_communication_stack(StackId stack, const StackTable& stacks, const StringTable& strings) {
  for (const FrameId frame : stacks.frames(stack)) {
    const std::string_view file = strings[stacks.frame(frame).file];
    if (contains_any(file, kPlumbing)) continue;
    if (contains_any(file, kFiles)) return true;
    if (origin_of(file) != FrameOrigin::kNative) return false;
  }
  return false;
}

}  // namespace plimsoll::model
