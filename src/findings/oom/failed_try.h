// What a try that ran out of memory leaves behind for the next one. While an exception is handled
// or stored, it refers to the frames of its try, and so to their tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "findings/rules.h"

namespace plimsoll::findings {

struct FailedTry {
  std::uint64_t bytes = 0;
  std::size_t tensors = 0;
  std::uint64_t event = 0;  // at which the try failed; the last one of several
  std::string call;         // the line whose call failed
};

// What earlier tries made for a forward or a backward and is live when `last` fails. A tensor is of
// an earlier try if it was made inside the call that failed next and the last try is outside that
// call.
FailedTry failed_try(const Facts& facts, const DeviceFacts& device, const report::OomDetails& last);

}  // namespace plimsoll::findings
