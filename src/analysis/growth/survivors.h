// Allocations that are live at the ends of steps, in the form that the rules of growth count.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::analysis::growth {

struct Survivor {
  std::uint32_t lifetime;  // row of the device's lifetimes
  std::uint32_t group;     // a line, layer or category; the caller numbers them
  std::uint32_t first;     // live at the ends of steps [first, beyond)
  std::uint32_t beyond;
  std::int64_t size_bytes;
  bool is_appended;       // its size is only the bytes that torch.cat added to its predecessor
  bool is_of_model;       // a parameter or buffer, or a parameter's single gradient or state of its
                          // kind
  bool is_entry = false;  // several tensors, each replacing the one before it
  std::uint32_t newest = 0;  // lifetime that is live at the end: the newest tensor of an entry
};

// The survivors by birth, with two exceptions. State and gradients that an older parameter gets
// late, when it is unfrozen, are omitted, because their number is limited. A tensor that torch.cat
// makes from its predecessor and another tensor counts only the appended bytes, and its predecessor
// continues in it.
std::vector<Survivor> survivors_at_ends(const model::Trace& trace, const model::DeviceTrace& device,
                                        const model::UserLines& lines,
                                        const std::vector<std::uint32_t>& ends);

}  // namespace plimsoll::analysis::growth
