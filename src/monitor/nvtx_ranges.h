// What recordings and monitors share when no tool reads NVTX.
#pragma once

namespace plimsoll::monitor {

// True for the first caller in this process, which prints why start_nvtx() failed: it fails for all
// recordings and monitors for the same reason.
bool may_print_nvtx_failure() noexcept;

}  // namespace plimsoll::monitor
