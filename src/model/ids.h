// The row numbers of the model's tables. In tables with optional rows, row 0 means "none".
#pragma once

#include <cstdint>
#include <limits>

#include "base/strong_id.h"

namespace plimsoll::model {

using StringId = base::StrongId<struct StringTag>;      // 0: the empty string, also "not recorded"
using FrameId = base::StrongId<struct FrameTag>;        // a (file, function, line)
using StackId = base::StrongId<struct StackTag>;        // 0: no stack was recorded
using SiteId = base::StrongId<struct SiteTag>;          // row in Trace::sites; 0: unknown
using LineId = base::StrongId<struct LineTag>;          // the line that stacks are charged to: see
                                                        // UserLines
using StreamId = base::StrongId<struct StreamTag>;      // row in Trace::streams
using PoolId = base::StrongId<struct PoolTag>;          // row in Trace::pools; 0: not recorded
using BlockId = base::StrongId<struct BlockTag>;        // row in Trace::blocks
using TensorId = base::StrongId<struct TensorTag>;      // row in Trace::tensors; 0: unknown
using SegmentId = base::StrongId<struct SegmentTag>;    // row in Trace::segments
using ShortageId = base::StrongId<struct ShortageTag>;  // row in Trace::shortages; 0: unknown
using LayerId = base::StrongId<struct LayerTag>;        // see Layers; 0: none

// No time was recorded.
inline constexpr std::int64_t kNoTime = std::numeric_limits<std::int64_t>::min();
// There is no event or block: it came before the recording began, or has not happened.
inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// A free_requested from before the first event: the block is pending when the recording begins.
inline constexpr std::uint32_t kBeforeRecording = kNone - 1;

}  // namespace plimsoll::model
