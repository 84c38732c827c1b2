// The live allocations of one device at one moment, grouped by whatever a table asks: one row a
// group, and the rest in one row more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/composition/live_allocations.h"
#include "analysis/groups.h"
#include "model/trace.h"
#include "report/tables.h"

namespace plimsoll::analysis::composition {

class Grouping {
 public:
  Grouping(const model::Trace& trace, const model::DeviceTrace& device,
           const report::MomentRow& moment, std::span<const LiveAllocation> live, std::size_t top)
      : trace_(trace), device_(device), moment_(moment), live_(live), top_(top) {}

  const model::Trace& trace() const { return trace_; }
  const model::DeviceTrace& device() const { return device_; }
  std::span<const LiveAllocation> live() const { return live_; }
  // Of the same moment, only these: shares are still of all that is live.
  Grouping only(std::span<const LiveAllocation> live) const {
    return {trace_, device_, moment_, live, top_};
  }

  // `id_of` gives a number below `id_count` for each allocation, in their order; `name_of` its key.
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
    append_rows(groups.take(), top_, moment_, describe, out);
  }

  // Where it was allocated; a site with nothing in it if that was before the recording.
  const model::Site& birth(const LiveAllocation& live) const {
    return trace_.birth(device_, live.lifetime);
  }

 private:
  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  const report::MomentRow& moment_;
  std::span<const LiveAllocation> live_;
  std::size_t top_;
};

// The tables that only some files can fill: by category, layer, phase, step, dtype, region, tensor,
// and why what is unknown is unknown.
void fill_told_tables(const Grouping& grouping, report::Tables& tables);

}  // namespace plimsoll::analysis::composition
