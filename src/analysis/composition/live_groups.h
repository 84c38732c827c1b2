// The live allocations of one device at one point in time, grouped by a table's key: one row per
// group, and one row for the rest. Groups that charts also show come from model/groupings.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/groups.h"
#include "model/groupings.h"
#include "model/live_allocations.h"
#include "model/live_set.h"
#include "model/trace.h"
#include "report/tables.h"

namespace plimsoll::analysis::composition {

using model::LiveAllocation;

class LiveGroups {
 public:
  LiveGroups(const model::Trace& trace, const model::DeviceTrace& device,
             const report::PointInTime& point, std::span<const LiveAllocation> live,
             std::size_t top)
      : trace_(trace), device_(device), point_(point), live_(live), top_(top) {}

  const model::Trace& trace() const { return trace_; }
  const model::DeviceTrace& device() const { return device_; }
  std::span<const LiveAllocation> live() const { return live_; }
  // The event after which they are live.
  std::int64_t event() const {
    return point_.event ? static_cast<std::int64_t>(*point_.event) : model::kBeforeFirst;
  }
  // The same point in time, restricted to these allocations; shares still refer to all live bytes.
  LiveGroups only(std::span<const LiveAllocation> live) const {
    return {trace_, device_, point_, live, top_};
  }

  // Adds no rows if the recording does not have this information.
  void group_by(const model::UserLines& lines, model::Dimension dimension,
                std::vector<report::GroupRow>& out) const {
    const auto grouping = model::make_grouping(trace_, device_, lines, dimension);
    if (!grouping) return;
    std::vector<std::uint32_t> ids;
    ids.reserve(live_.size());
    for (const LiveAllocation& live : live_) ids.push_back(grouping->group(live.lifetime));
    std::size_t next = 0;
    group(
        grouping->size(), [&](const LiveAllocation&) { return ids[next++]; },
        [&](std::uint32_t id) { return grouping->name(id); }, out);
  }
  // `id_of` returns a number below `id_count` for each allocation, in order; `name_of` its key.
  template <typename IdOf, typename NameOf>
  void group(std::size_t id_count, IdOf&& id_of, NameOf&& name_of,
             std::vector<report::GroupRow>& out) const {
    describe_groups(
        id_count, id_of, [&](std::uint32_t id, report::GroupRow& row) { row.key = name_of(id); },
        out);
  }
  template <typename IdOf>
  void describe_groups(std::size_t id_count, IdOf&& id_of, const Describe& describe,
                       std::vector<report::GroupRow>& out) const {
    Groups groups(id_count);
    for (const LiveAllocation& live : live_) groups.add(id_of(live), live.size_bytes);
    append_rows(groups.take(), top_, point_, describe, out);
  }

 private:
  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  const report::PointInTime& point_;
  std::span<const LiveAllocation> live_;
  std::size_t top_;
};

// The tables that only some files can fill: by category, layer, phase, step, dtype, region and
// tensor, and the reasons for unknown memory.
void fill_native_tables(const LiveGroups& groups, const model::UserLines& lines,
                        report::Tables& tables);

}  // namespace plimsoll::analysis::composition
