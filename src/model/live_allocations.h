// The allocations live at a point in time, each with the keys by which tables group them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/final_pools.h"
#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::model {

struct LiveAllocation {
  std::uint64_t size_bytes = 0;  // as counted by the tables
  std::uint32_t lifetime = 0;    // row of the device's lifetimes
  std::uint32_t born = kNone;    // event of the device; kNone: before the recording
  LineId line;  // one past the last line: allocated before recording, place unknown
  StackId stack;
  StreamId stream;
  PoolId pool;
  StringId category;  // 0: none
};

// Finds the keys of a device's allocations. The arguments of the constructor must outlive it.
class AllocationKeys {
 public:
  AllocationKeys(const Trace& trace, const DeviceTrace& device, const UserLines& lines)
      : trace_(trace), device_(device), lines_(lines) {}

  // The stack that allocated it. An allocation known only by its free has none, because the stack
  // of the free would be misleading.
  StackId stack(std::size_t lifetime) const;
  LineId line(std::size_t lifetime) const;
  PoolId pool(std::size_t lifetime) const;
  StreamId stream(std::size_t lifetime) const { return trace_.stream(device_, lifetime); }
  LiveAllocation all(std::uint32_t lifetime) const;

 private:
  const Trace& trace_;
  const DeviceTrace& device_;
  const UserLines& lines_;
  mutable std::optional<FinalPools> final_pools_;  // made when first needed
};

// The allocations live after `event`.
std::vector<LiveAllocation> live_allocations(const Trace& trace, const DeviceTrace& device,
                                             const UserLines& lines, std::int64_t event);

bool is_known_category(const Trace& trace, StringId category);
// True if any of them has a known category.
bool has_categories(const Trace& trace, std::span<const LiveAllocation> live);

inline LineId before_recording(const UserLines& lines) {
  return LineId{static_cast<std::uint32_t>(lines.line_count())};
}

}  // namespace plimsoll::model
