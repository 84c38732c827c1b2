// The cause class of an out-of-memory event, decided by numbers. Each class but the last is a claim
// that can be checked: had this one thing not been, the request would not have failed, or the thing
// is most of what there is. In order; the first that holds is the cause:
//
//   1. fragmentation      the free bytes inside the segments and what the driver has left are
//   enough
//                         together, no single gap is, and the stranded bytes are as large as the
//                         request or 10 % of what is reserved.
//      steady_growth      sites that grow at every step hold 25 % of what is live or more.
//                         Where both hold, the larger of stranded and grown bytes decides: a leak
//                         that has scattered a little garbage is a leak.
//   2. process_limit      the driver had room: only a limit of the process forbade it.
//   3. one_large_request  the request is larger than all that is live, or at least 50 % of all that
//                         the process could have (reserved and free on the device).
//   4. too_big            none of these: what is live is needed at once.
//
// Growth and fragmentation come before the large request because a request that once fitted and
// fails now fails because of what was added, however large it is.
#pragma once

#include <cstdint>

namespace plimsoll::analysis::oom {

enum class Cause : std::uint8_t {
  kFragmentation,
  kSteadyGrowth,
  kProcessLimit,
  kOneLargeRequest,
  kTooBig
};
const char* to_string(Cause cause);

struct OomFacts {
  std::uint64_t requested_bytes = 0;
  std::uint64_t device_free_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t live_bytes = 0;            // requested, active
  std::uint64_t reachable_free_bytes = 0;  // inside segments; not in other private pools
  std::uint64_t largest_usable_bytes = 0;  // largest gap that the request may be served from
  std::uint64_t stranded_bytes = 0;
  std::uint64_t grown_bytes = 0;  // of what is live, what steady growth added
  std::uint64_t limit_bytes = 0;  // the most the process may hold; 0: there is none, or not known
};

// True if the driver had room and the request failed all the same: a limit of the process is in
// force (set_per_process_memory_fraction), and what the device has free does not count.
bool is_limited(const OomFacts& facts);

Cause cause_of(const OomFacts& facts);

}  // namespace plimsoll::analysis::oom
