// The allocations alive at a moment, each with the ids that tables group by.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::analysis::composition {

struct LiveAllocation {
  std::uint64_t size_bytes = 0;
  model::LineId line;  // one past the last line: allocated before recording, nobody knows where
  model::StackId stack;
  model::StreamId stream;
  model::PoolId pool;
  model::StringId category;
  model::StringId op;
  model::StringId layer;
};

// Alive after `event`, until free_completed.
std::vector<LiveAllocation> live_allocations(const model::Trace& trace,
                                             const model::DeviceTrace& device,
                                             const model::UserLines& lines, std::int64_t event);

inline model::LineId before_recording(const model::UserLines& lines) {
  return model::LineId{static_cast<std::uint32_t>(lines.line_count())};
}

}  // namespace plimsoll::analysis::composition
