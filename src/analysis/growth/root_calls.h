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

// Each call ends where the next one begins, and the last one after its last allocation. Empty if
// the recording has no layers, if a backward or an optimizer runs, or if the calls are irregular.
// If there are several root modules, the one called most often counts.
RootCalls find_root_calls(const model::Trace& trace, const model::DeviceTrace& device);

}  // namespace plimsoll::analysis::growth
