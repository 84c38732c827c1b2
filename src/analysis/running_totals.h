// The four running totals of a device, and how each event changes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "model/event_signs.h"
#include "model/events.h"
#include "model/trace.h"
#include "plimsoll/caching_allocator.h"
#include "report/timeline.h"

namespace plimsoll::analysis {

using report::Series;

// Like caching_allocator::block_bytes, but without a branch; an empty allocation has no block.
inline std::uint64_t rounded(std::uint64_t size_bytes) {
  constexpr std::uint64_t kRest = caching_allocator::kMinBlockBytes - 1;
  return (size_bytes + kRest) & ~kRest;
}

// Sums wrap instead of overflowing, because a hostile file may have any size.
using Totals = std::array<std::uint64_t, report::kSeriesCount>;

inline std::uint64_t& of(Totals& totals, Series which) {
  return totals[static_cast<std::size_t>(which)];
}

// The totals before the first event.
inline Totals baseline_totals(const report::Timeline& timeline) {
  Totals totals{};
  for (std::size_t i = 0; i < totals.size(); ++i) {
    totals[i] = static_cast<std::uint64_t>(timeline.baseline_bytes[i]);
  }
  return totals;
}

inline void apply(model::Action action, std::uint64_t size_bytes, std::uint64_t block_bytes,
                  Totals& totals) {
  const model::Signs& signs = model::kSigns[static_cast<std::size_t>(action)];
  of(totals, Series::kRequestedAllocated) += signs.allocated * size_bytes;
  of(totals, Series::kRequestedActive) += signs.active * size_bytes;
  of(totals, Series::kAllocatedRounded) += signs.allocated * block_bytes;
  of(totals, Series::kReserved) += signs.reserved * size_bytes;
}

// The events of one device, as bare pointers for tight loops.
struct EventView {
  const model::Action* action;
  const std::uint64_t* size_bytes;
  const std::int64_t* time_ns;
  std::size_t count;
  // Null if the device has no block sizes.
  const model::OptionalColumn<std::uint64_t>* padding_bytes;

  std::uint64_t block_bytes(std::size_t row) const {
    if (padding_bytes == nullptr) return rounded(size_bytes[row]);
    return size_bytes[row] + (*padding_bytes)[row];
  }
  void apply_to(Totals& totals, std::size_t row) const {
    apply(action[row], size_bytes[row], block_bytes(row), totals);
  }
};

inline EventView view_of(const model::DeviceTrace& device) {
  return {device.events.action.data(), device.events.size_bytes.data(),
          device.events.time_ns.data(), device.events.size(),
          device.has_block_sizes ? &device.events.padding_bytes : nullptr};
}

}  // namespace plimsoll::analysis
