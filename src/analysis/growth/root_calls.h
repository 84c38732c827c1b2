// Steps of forward-only programs: the calls of the root module.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::growth {

struct RootCalls {
  std::string root;                 // the module's path
  std::vector<std::uint32_t> ends;  // "before this event", ascending; empty if none
};

// Each call ends where the next one begins, the last one at its last allocation. Empty if the
// recording has no layers, if a backward or an optimizer runs, or if the calls are irregular. Of
// several root modules, uses the one called most often.
RootCalls find_root_calls(const model::Trace& trace, const model::DeviceTrace& device);

}  // namespace plimsoll::analysis::growth
