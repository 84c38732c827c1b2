// Operators, such as torch.cat and F.pad, that may make a tensor by appending to a shorter one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "model/trace.h"

namespace plimsoll::analysis {

inline bool is_joining(std::string_view op) {
  constexpr std::array<std::string_view, 9> kJoining = {
      "aten::cat",       "aten::concat", "aten::concatenate",     "aten::hstack", "aten::vstack",
      "aten::row_stack", "aten::pad",    "aten::constant_pad_nd", "aten::resize_"};
  return std::ranges::find(kJoining, op) != kJoining.end();
}

// Whether the allocation is made by such an operator.
inline bool joins(const model::Trace& trace, const model::DeviceTrace& device,
                  std::uint32_t lifetime) {
  const model::Site& site = trace.birth(device, lifetime);
  return is_joining(trace.strings[site.op]) || is_joining(trace.strings[site.inner_op]);
}

}  // namespace plimsoll::analysis
