// The allocations live at a point in time, each with the keys of the tables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::analysis::composition {

struct LiveAllocation {
  std::uint64_t size_bytes = 0;       // as counted by the tables
  std::uint32_t lifetime = 0;         // row of the device's lifetimes
  std::uint32_t born = model::kNone;  // event of the device; kNone: before the recording
  model::LineId line;  // one past the last line: allocated before recording, place unknown
  model::StackId stack;
  model::StreamId stream;
  model::PoolId pool;
  model::StringId category;  // 0: none
};

// Live after `event`.
std::vector<LiveAllocation> live_allocations(const model::Trace& trace,
                                             const model::DeviceTrace& device,
                                             const model::UserLines& lines, std::int64_t event);

// Whether the allocation's category is known.
bool has_category(const model::Trace& trace, const LiveAllocation& live);
bool has_categories(const model::Trace& trace,
                    std::span<const LiveAllocation> live);  // for at least one of them

inline model::LineId before_recording(const model::UserLines& lines) {
  return model::LineId{static_cast<std::uint32_t>(lines.line_count())};
}

}  // namespace plimsoll::analysis::composition
