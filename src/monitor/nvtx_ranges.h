// Keeps recordings and monitors from printing several times that no tool reads NVTX.
#pragma once

namespace plimsoll::monitor {

// Returns true to the first caller in this process, which prints why start_nvtx() failed. It fails
// for all recordings and monitors for the same reason.
bool may_print_nvtx_failure() noexcept;

}  // namespace plimsoll::monitor
