#include "model/steps.h"

#include <algorithm>

namespace plimsoll::model {

std::vector<StepEnd> step_ends(const Trace& trace, const DeviceTrace& device) {
  std::vector<StepEnd> ends;
  const bool is_cut = device.history == History::kTruncated;
  for (std::size_t row = 0; row < device.mark_events.size(); ++row) {
    const Mark& mark = trace.marks[row];
    if (mark.kind != MarkKind::kStep) continue;
    if (is_cut && device.mark_events[row] == 0) continue;
    ends.push_back(StepEnd{device.mark_events[row], mark.step, mark.time_ns});
  }
  return ends;
}

std::size_t step_of(const std::vector<StepEnd>& ends, std::uint32_t event) {
  const auto end = std::ranges::upper_bound(ends, event, {}, &StepEnd::event);
  return static_cast<std::size_t>(end - ends.begin());
}

}  // namespace plimsoll::model
