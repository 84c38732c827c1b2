// Allocations that are live at the ends of steps, as the rules of growth count them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::analysis::growth {

struct Held {
  std::uint32_t lifetime;  // of the device
  std::uint32_t group;     // a line, a layer or a category: numbered by who asks
  std::uint32_t first;     // live at the ends of steps [first, beyond)
  std::uint32_t beyond;
  std::int64_t size_bytes;
  bool is_appended;  // the bytes that torch.cat added to the tensor before it
  bool is_of_model;  // a parameter, a buffer, or the one gradient or state of its kind of a
                     // parameter
};

// By birth, but for two kinds. State and gradients that an older parameter gets late, when it is
// unfrozen, are left out: there are only so many of them. A tensor that torch.cat makes of its
// predecessor and a tensor of the difference in size counts as what was appended, and its
// predecessor lives on in it.
std::vector<Held> held_at_ends(const model::Trace& trace, const model::DeviceTrace& device,
                               const model::UserLines& lines,
                               const std::vector<std::uint32_t>& ends);

}  // namespace plimsoll::analysis::growth
