// When a program could have freed an allocation at best, and whether operators use it again after a
// point in time (docs/last-use.md). Requires Trace::has_uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/trace.h"

namespace plimsoll::model {

enum class UsedAgain : std::uint8_t {
  kYes,
  kNo,
  kUnknown,
  kExempt  // the program keeps it whether operators use it or not: parameters, for example
};

// Whether programs and libraries keep memory of this category in any case.
bool is_kept_category(std::string_view category);

class LastUses {
 public:
  LastUses(const Trace& trace, const DeviceTrace& device);

  // The event before which the lifetime would end if it were freed at its last use. Its own end
  // (death() for the default liveness) if that is earlier, and for exempt lifetimes and those whose
  // last use is unknown.
  std::uint32_t freeable(std::size_t lifetime) const;
  // For a lifetime that is live after `event`.
  UsedAgain used_again(std::size_t lifetime, std::int64_t event) const;
  bool is_exempt(std::size_t lifetime) const;

 private:
  const Trace& trace_;
  const DeviceTrace& device_;
  std::vector<bool> is_exempt_category_;  // by StringId
};

}  // namespace plimsoll::model
