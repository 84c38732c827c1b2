// Bands of a stacked chart: the live bytes of each group at each of many points in time, exact to
// the byte, in one pass over the lifetimes whatever the order of frees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/groupings.h"
#include "model/trace.h"

namespace plimsoll::tiles {

// The name of the group into which largest() merges all other groups.
inline constexpr const char* kEverythingElse = "[everything else]";

// The group of each lifetime of a device.
struct Groups {
  std::vector<std::uint32_t> of;   // by lifetime: a row of `names`
  std::vector<std::string> names;  // the same names as in the report's tables
};

Groups groups_of(model::Grouping& grouping, const model::DeviceTrace& device);

struct Bands {
  std::vector<std::string> names;
  std::size_t points = 0;
  std::vector<std::uint64_t> bytes;   // band by band
  std::vector<std::uint64_t> counts;  // live allocations, band by band

  std::span<const std::uint64_t> of(std::size_t band) const {
    return {bytes.data() + band * points, points};
  }
};

// Returns one band for each group. `points` ascend (equal neighbors are allowed): "after this
// event", or model::kBeforeFirst. At each point, the bands sum to the live set (model::held).
Bands bands(const model::Trace& trace, const model::DeviceTrace& device, const Groups& groups,
            std::span<const std::int64_t> points);

// The part of these bands that no operator uses again after each point (model::UsedAgain::kNo).
// Requires Trace::has_uses.
Bands unused_bands(const model::Trace& trace, const model::DeviceTrace& device,
                   const Groups& groups, std::span<const std::int64_t> points);

// Keeps the groups that are among the `keep` largest, either at one of the `important` points or by
// their sum over `points`; all others become one last group, kEverythingElse. At most
// keep * (important.size() + 1) + 1 groups remain. Each important point costs a live set.
Groups largest(const model::Trace& trace, const model::DeviceTrace& device, Groups groups,
               std::span<const std::int64_t> points, std::span<const std::int64_t> important,
               std::size_t keep);

}  // namespace plimsoll::tiles
