#include "analysis/oom/cause.h"

#include <algorithm>

namespace plimsoll::analysis::oom {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

// Any caching allocator leaves up to a tenth of its segments unused.
constexpr double kStrandedShareOfReserved = 0.10;
// The share if it is unknown what the rest of the step needed. A full device with a few free pieces
// is not fragmented.
constexpr double kStrandedShareIfUnknown = 0.25;
// A quarter of live memory exceeds the headroom that people usually leave on a device.
constexpr double kGrownShareOfLive = 0.25;
// Half of the total: no rearrangement of the rest could fit such a request twice.
constexpr double kLargeShareOfAll = 0.50;
// Memory the allocator may request from the driver beyond the request (a segment is up to 20 MiB),
// and memory the driver retains.
constexpr std::uint64_t kDriverPaddingBytes = 64 * kMib;

bool is_share(std::uint64_t part, double share, std::uint64_t whole) {
  return part > 0 && static_cast<double>(part) >= share * static_cast<double>(whole);
}

std::uint64_t left_at_driver(const OomFacts& facts) {
  return is_limited(facts) ? 0 : facts.device_free_bytes;
}

bool would_rest_fit(const OomFacts& facts) {
  if (facts.needed_bytes > 0) return facts.needed_bytes <= safe_bytes(available_bytes(facts));
  return is_share(facts.stranded_bytes, kStrandedShareIfUnknown, facts.reserved_bytes);
}

bool is_fragmentation(const OomFacts& facts) {
  const bool fits_in_sum =
      facts.reachable_free_bytes + left_at_driver(facts) >= facts.requested_bytes;
  const bool fits_nowhere = facts.largest_usable_bytes < facts.requested_bytes;
  // If it is known what the step needed, would_rest_fit() decides, and any stranded bytes are
  // enough.
  const bool is_much =
      (facts.needed_bytes > 0 && facts.stranded_bytes > 0) ||
      facts.stranded_bytes >= facts.requested_bytes ||
      is_share(facts.stranded_bytes, kStrandedShareOfReserved, facts.reserved_bytes);
  return fits_in_sum && fits_nowhere && is_much && would_rest_fit(facts);
}

}  // namespace

bool is_limited(const OomFacts& facts) {
  if (facts.device_free_bytes < facts.requested_bytes) return false;
  const bool is_over =
      facts.limit_bytes > 0 && facts.reserved_bytes + facts.requested_bytes > facts.limit_bytes;
  return is_over || facts.device_free_bytes - facts.requested_bytes >= kDriverPaddingBytes;
}

std::uint64_t safe_bytes(std::uint64_t available_bytes) {
  constexpr std::uint64_t kHeadroom = 20;  // a twentieth
  return available_bytes - available_bytes / kHeadroom;
}

std::uint64_t available_bytes(const OomFacts& facts) {
  const std::uint64_t reserved = std::max(facts.reserved_bytes, facts.live_bytes);
  const bool has_limit = facts.limit_bytes > 0;
  // If the limit is unknown, only the reserved bytes are certain.
  std::uint64_t all = reserved + (has_limit ? facts.device_free_bytes : left_at_driver(facts));
  if (has_limit) all = std::min(all, std::max(facts.limit_bytes, reserved));
  return all - std::min(all, facts.unreachable_free_bytes);
}

std::string_view cause_of(const OomFacts& facts) {
  const bool is_growth = is_share(facts.grown_bytes, kGrownShareOfLive, facts.live_bytes);
  if (is_fragmentation(facts)) {
    const bool is_more_growth = is_growth && facts.grown_bytes > facts.stranded_bytes;
    return is_more_growth ? "steady_growth" : "fragmentation";
  }
  if (is_growth) return "steady_growth";
  if (facts.is_cpu && is_limited(facts)) return "process_limit";
  // Files without segments lack reserved bytes, but live memory is certainly reserved.
  const std::uint64_t all =
      std::max(facts.reserved_bytes, facts.live_bytes) + left_at_driver(facts);
  if (facts.requested_bytes > facts.live_bytes ||
      is_share(facts.requested_bytes, kLargeShareOfAll, all)) {
    return "one_large_request";
  }
  return "too_big";
}

}  // namespace plimsoll::analysis::oom
