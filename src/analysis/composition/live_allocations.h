// The allocations alive at a moment, each with what tables group by.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::analysis::composition {

struct LiveAllocation {
  std::uint64_t size_bytes = 0;       // held bytes
  std::uint32_t lifetime = 0;         // row of the device's lifetimes
  std::uint32_t born = model::kNone;  // event of the device; kNone: before the recording
  model::LineId line;  // one past the last line: allocated before recording, nobody knows where
  model::StackId stack;
  model::StreamId stream;
  model::PoolId pool;
  model::StringId category;  // 0: none
};

// Held after `event`.
std::vector<LiveAllocation> live_allocations(const model::Trace& trace,
                                             const model::DeviceTrace& device,
                                             const model::UserLines& lines, std::int64_t event);

// It is known what the allocation is for.
bool has_category(const model::Trace& trace, const LiveAllocation& live);
bool has_categories(const model::Trace& trace, std::span<const LiveAllocation> live);  // some of it

inline model::LineId before_recording(const model::UserLines& lines) {
  return model::LineId{static_cast<std::uint32_t>(lines.line_count())};
}

}  // namespace plimsoll::analysis::composition
