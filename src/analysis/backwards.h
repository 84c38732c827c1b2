// The backwards that begin on a device, and what is held at each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/live_set.h"
#include "model/trace.h"

namespace plimsoll::analysis {

// After how many of the device's events each begins, ascending.
inline std::vector<std::uint32_t> backward_begins(const model::Trace& trace,
                                                  const model::DeviceTrace& device) {
  std::vector<std::uint32_t> begins;
  for (std::size_t row = 0; row < device.mark_events.size(); ++row) {
    const bool is_begin = trace.marks[row].kind == model::MarkKind::kBackwardBegin;
    if (is_begin) begins.push_back(device.mark_events[row]);
  }
  return begins;
}

// The bytes held at each of `begins` of what was allocated in the recording, of the lifetimes
// (rows) for which `is_wanted`. Sums wrap: a file may name any size.
template <typename IsWanted>
std::vector<std::uint64_t> held_at(const std::vector<std::uint32_t>& begins,
                                   const model::Trace& trace, const model::DeviceTrace& device,
                                   IsWanted&& is_wanted) {
  std::vector<std::uint64_t> bytes(begins.size() + 1);  // first what each has more than the last
  const model::Lifetimes& lifetimes = device.lifetimes;
  const auto place_after = [&](std::uint32_t event) -> std::uint64_t& {
    return bytes[static_cast<std::size_t>(std::ranges::upper_bound(begins, event) -
                                          begins.begin())];
  };
  for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const std::uint32_t born = lifetimes.alloc[row];
    if (!is_wanted(row)) continue;
    const std::uint64_t size = trace.held_bytes(device, row);
    place_after(born) += size;
    place_after(model::death(lifetimes, row, model::held(device))) -= size;
  }
  bytes.pop_back();
  for (std::size_t i = 1; i < bytes.size(); ++i) bytes[i] += bytes[i - 1];
  return bytes;
}

}  // namespace plimsoll::analysis
