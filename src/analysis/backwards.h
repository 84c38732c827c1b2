// The backward passes that begin on a device, and the live bytes at each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/live_set.h"
#include "model/trace.h"

namespace plimsoll::analysis {

// For each backward pass, the number of the device's events before it, ascending.
inline std::vector<std::uint32_t> backward_begins(const model::Trace& trace,
                                                  const model::DeviceTrace& device) {
  std::vector<std::uint32_t> begins;
  for (std::size_t row = 0; row < device.mark_events.size(); ++row) {
    const bool is_begin = trace.marks[row].kind == model::MarkKind::kBackwardBegin;
    if (is_begin) begins.push_back(device.mark_events[row]);
  }
  return begins;
}

// A backward pass: the number of the device's events before its begin and before its end.
struct BackwardSpan {
  std::uint32_t begin = 0;
  std::uint32_t end = model::kNone;  // kNone: it has not ended
};
inline BackwardSpan backward_from(const model::Trace& trace, const model::DeviceTrace& device,
                                  std::uint32_t begin) {
  for (std::size_t row = 0; row < device.mark_events.size(); ++row) {
    const bool is_end = trace.marks[row].kind == model::MarkKind::kBackwardEnd;
    if (is_end && device.mark_events[row] > begin) return {begin, device.mark_events[row]};
  }
  return {begin};
}

// Whether an allocation that is live when a backward begins is kept for it: made in forward, and,
// as far as uses are known, either used by the backward or released by it. What is neither, such as
// logits that a model returns, only the program keeps.
inline bool is_kept_for(const BackwardSpan& backward, const model::DeviceTrace& device,
                        std::size_t lifetime) {
  const model::Lifetimes& lifetimes = device.lifetimes;
  if (!has(lifetimes.flags[lifetime], model::LifetimeFlags::kSavedForBackward)) return false;
  const model::LastUse use = lifetimes.use(lifetime);
  return !use.is_known() || use.unused_from >= backward.begin || backward.end == model::kNone ||
         model::death(lifetimes, lifetime, model::default_liveness(device)) < backward.end;
}

// At each of `begins`, the live bytes of allocations made in the recording for which `is_wanted` is
// true (it takes rows of the lifetimes). Sums wrap, because a hostile file may have any size.
template <typename IsWanted>
std::vector<std::uint64_t> held_at(const std::vector<std::uint32_t>& begins,
                                   const model::Trace& trace, const model::DeviceTrace& device,
                                   IsWanted&& is_wanted) {
  std::vector<std::uint64_t> bytes(begins.size() + 1);  // differences at first
  const model::Lifetimes& lifetimes = device.lifetimes;
  const auto place_after = [&](std::uint32_t event) -> std::uint64_t& {
    return bytes[static_cast<std::size_t>(std::ranges::upper_bound(begins, event) -
                                          begins.begin())];
  };
  for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const std::uint32_t born = lifetimes.alloc[row];
    if (!is_wanted(row)) continue;
    const std::uint64_t size = trace.lifetime_bytes(device, row);
    place_after(born) += size;
    place_after(model::death(lifetimes, row, model::default_liveness(device))) -= size;
  }
  bytes.pop_back();
  for (std::size_t i = 1; i < bytes.size(); ++i) bytes[i] += bytes[i - 1];
  return bytes;
}

}  // namespace plimsoll::analysis
