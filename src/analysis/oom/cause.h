// The cause class of an out-of-memory event, decided by numbers. Each class but the last is a
// verifiable claim: without this one condition the request would not have failed, or it accounts
// for most of the memory. The classes are checked in this order; the first that holds is the cause:
//
//   1. fragmentation      the free bytes inside the segments plus the driver's free bytes suffice,
//                         but no single gap does; the stranded bytes are as large as the request or
//                         10 % of reserved bytes; and the rest of the step would have fitted too.
//                         If what the step needed is unknown, the stranded bytes must be 25 % of
//                         reserved bytes.
//      steady_growth      sites that grow at every step hold 25 % of live bytes or more.
//                         If both hold, the larger of stranded and grown bytes decides: a leak
//                         that also scatters a little garbage is a leak.
//   2. process_limit      on the CPU only: memory was free, and a limit of the process forbade it.
//                         A GPU's limit is part of what is available, not a cause.
//   3. one_large_request  the request is larger than all live bytes, or at least 50 % of all memory
//                         that the process could have (reserved plus free on the device).
//   4. too_big            none of these: the step needs more than is available.
//
// Growth and fragmentation are checked before the large request: if a request once fitted and now
// fails, the cause is the memory that was added since, however large the request is.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::analysis::oom {

struct OomFacts {
  std::uint64_t requested_bytes = 0;
  std::uint64_t device_free_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t live_bytes = 0;              // requested and active
  std::uint64_t reachable_free_bytes = 0;    // inside segments, without other private pools
  std::uint64_t unreachable_free_bytes = 0;  // in other private pools
  std::uint64_t largest_usable_bytes = 0;    // largest gap that may serve the request
  std::uint64_t stranded_bytes = 0;
  std::uint64_t grown_bytes = 0;   // part of the live bytes that steady growth added
  std::uint64_t limit_bytes = 0;   // the limit of the process; 0: none or unknown
  std::uint64_t needed_bytes = 0;  // peak of the step, had it finished; 0: unknown
  bool is_cpu = false;
};

// True if the driver had enough memory and the request failed anyway: at a limit of the process, if
// one is recorded, or because another allocation came first. In that case, the device's free memory
// is not available.
bool is_limited(const OomFacts& facts);

// The largest need that certainly fits into `available_bytes`: 95 % of it, because estimates are
// not exact and an allocator never uses all of its memory.
std::uint64_t safe_bytes(std::uint64_t available_bytes);

// The memory that the process could have for live allocations of the request's pool, without
// fragmentation.
std::uint64_t available_bytes(const OomFacts& facts);

std::string_view cause_of(const OomFacts& facts);

}  // namespace plimsoll::analysis::oom
