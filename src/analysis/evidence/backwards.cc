#include "analysis/evidence/backwards.h"

#include <algorithm>
#include <optional>

namespace plimsoll::analysis::evidence {
namespace {

using Events = std::vector<std::uint32_t>;

// The first event in [begin, end) that shows that the backward has ended; nothing if none does.
std::optional<std::uint32_t> first_after_backward(const model::Trace& trace,
                                                  const model::DeviceTrace& device,
                                                  const Events& steps, std::uint32_t begin,
                                                  std::uint32_t end) {
  std::uint32_t last = begin;  // past the last allocation of the backward
  std::optional<std::uint32_t> outside;
  for (std::uint32_t event = begin; event < end; ++event) {
    if (device.events.action[event] != model::Action::kAlloc) continue;
    const bool is_backward = trace.site(device, event).phase == model::Phase::kBackward;
    if (is_backward) {
      // Another thread allocated this while backward was still running.
      last = event + 1;
      outside.reset();
    } else if (!outside) {
      outside = event;
    }
  }
  const auto step = std::ranges::lower_bound(steps, last);
  const bool is_step_first = step != steps.end() && *step < outside.value_or(end);
  return is_step_first ? *step : outside;
}

}  // namespace

Events marks_of(const model::Trace& trace, const model::DeviceTrace& device, model::MarkKind kind) {
  Events events;
  for (std::size_t row = 0; row < device.mark_events.size(); ++row) {
    if (trace.marks[row].kind == kind) events.push_back(device.mark_events[row]);
  }
  return events;
}

Events backward_ends(const model::Trace& trace, const model::DeviceTrace& device) {
  const Events steps = marks_of(trace, device, model::MarkKind::kStep);
  const Events begins = marks_of(trace, device, model::MarkKind::kBackwardBegin);
  Events ends;
  Events open;  // begins of the backwards that have not ended, outermost first
  for (std::size_t row = 0; row < device.mark_events.size(); ++row) {
    const std::uint32_t event = device.mark_events[row];
    if (trace.marks[row].kind == model::MarkKind::kBackwardBegin) open.push_back(event);
    if (trace.marks[row].kind != model::MarkKind::kBackwardEnd) continue;
    const std::uint32_t begin = open.empty() ? event : open.back();
    if (!open.empty()) open.pop_back();
    const bool is_late = std::ranges::binary_search(begins, event);
    ends.push_back(
        is_late ? first_after_backward(trace, device, steps, begin, event).value_or(event) : event);
  }
  if (open.size() == 1) {
    const auto last = static_cast<std::uint32_t>(device.events.size());
    const auto end = first_after_backward(trace, device, steps, open.front(), last);
    if (end) ends.push_back(*end);
  }
  std::ranges::sort(ends);
  return ends;
}

}  // namespace plimsoll::analysis::evidence
