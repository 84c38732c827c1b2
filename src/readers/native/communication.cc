#include "readers/native/communication.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace plimsoll::readers::native {
namespace {

constexpr std::array<std::string_view, 3> kFiles = {
    "/torch/nn/parallel/distributed.py", "/torch/distributed/fsdp/", "/torch/distributed/utils.py"};
// Called by all of torch's Python code.
constexpr std::array<std::string_view, 2> kPlumbing = {"/torch/_ops.py", "/torch/_library/"};

template <std::size_t kCount>
bool contains_any(std::string_view file, const std::array<std::string_view, kCount>& parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return file.find(part) != std::string_view::npos; });
}

bool is_in_their_files(model::StackId stack, model::TraceBuilder& builder) {
  const model::StackTable& stacks = builder.stacks();
  for (const model::FrameId frame : stacks.frames(stack)) {
    const std::string_view file = builder.strings()[stacks.frame(frame).file];
    if (!contains_any(file, kPlumbing)) return contains_any(file, kFiles);
  }
  return false;
}

}  // namespace

bool is_communication(const Place& place, model::TraceBuilder& builder) {
  const model::StringTable& strings = builder.strings();
  return strings[place.site.inner_op].starts_with("fsdp::") ||
         strings[place.site.op].starts_with("fsdp::") ||
         strings[place.site.op].starts_with("RegisterPostBackwardFunction") ||
         is_in_their_files(place.site.stack, builder);
}

}  // namespace plimsoll::readers::native
