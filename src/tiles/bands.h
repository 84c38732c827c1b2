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

// The name of the group that largest() makes of all others.
inline constexpr const char* kEverythingElse = "[everything else]";

// The group of each lifetime of a device.
struct Groups {
  std::vector<std::uint32_t> of;   // by lifetime: a row of `names`
  std::vector<std::string> names;  // as the tables of the report name them
};

Groups groups_of(model::Grouping& grouping, const model::DeviceTrace& device);

struct Bands {
  std::vector<std::string> names;
  std::size_t points = 0;
  std::vector<std::uint64_t> bytes;   // band by band
  std::vector<std::uint64_t> counts;  // live allocations, likewise

  std::span<const std::uint64_t> of(std::size_t band) const {
    return {bytes.data() + band * points, points};
  }
};

// One band for each group. `points` ascend (equal neighbors are allowed): "after this event", or
// model::kBeforeFirst. The bands of a point sum to its live set (model::held).
Bands bands(const model::Trace& trace, const model::DeviceTrace& device, const Groups& groups,
            std::span<const std::int64_t> points);

// Keeps the groups that are among the `keep` largest at one of `important` points or by their sum
// over `points`; all others become one last group, kEverythingElse. At most
// keep * (important.size() + 1) + 1 groups remain. An important point costs its live set.
Groups largest(const model::Trace& trace, const model::DeviceTrace& device, Groups groups,
               std::span<const std::int64_t> points, std::span<const std::int64_t> important,
               std::size_t keep);

}  // namespace plimsoll::tiles
