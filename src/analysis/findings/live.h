// What rules ask of the allocations that are live at the peak, where the recording tells
// categories.
#pragma once

#include <cstdint>
#include <string_view>

#include "analysis/findings/rules.h"
#include "model/live_set.h"

namespace plimsoll::analysis::findings {

// The moment that the tables of this device speak of, if it is the peak and the recording is one of
// our own (which tell phases); else null.
const report::MomentRow* own_peak(const Facts& facts, const DeviceFacts& device);

// Calls each(event, size_bytes) for what is live at the moment and has this category; `event` is
// the event of the device that allocated it.
template <typename Each>
void for_each_live(const Facts& facts, const DeviceFacts& device, const report::MomentRow& moment,
                   std::string_view category, Each&& each) {
  const model::Trace& trace = facts.trace;
  const auto now = moment.event ? static_cast<std::int64_t>(*moment.event) : model::kBeforeFirst;
  for (const std::uint32_t row : live_set(device.trace, model::held(device.trace), now)) {
    const std::uint32_t born = device.trace.lifetimes.alloc[row];
    if (born == model::kNone) continue;
    const std::size_t event = device.trace.first_event + born;
    if (trace.strings[trace.events.category[event]] != category) continue;
    each(born, trace.held_bytes(device.trace, row));
  }
}

}  // namespace plimsoll::analysis::findings
