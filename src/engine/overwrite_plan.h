// The plan by which adapters/libtorch/overwrite.cc overwrites a program's memory after its last
// use, from a recording of an earlier run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/trace.h"
#include "plimsoll/result.h"

namespace plimsoll::engine {

// An allocation of the recording. Those of a device are in their order, without adopted memory.
struct PlannedAllocation {
  static constexpr std::uint64_t kNever = UINT64_MAX;

  std::uint32_t device_type = 0;
  std::int32_t ordinal = 0;
  std::uint64_t size_bytes = 0;
  // The first allocation of this device, by number, after the last use; kNever: there is none, the
  // last use is unknown, or the memory is a parameter, a buffer or optimizer state.
  std::uint64_t unused_from = kNever;
};

struct OverwritePlan {
  std::vector<PlannedAllocation> allocations;
  std::vector<std::string> places;  // of each allocation: "train.py:42 (forward)"

  // The rows that are overwritten, in the order of their last uses.
  std::vector<std::size_t> overwritten() const;
  // The plan as a file, which overwrites only the first `count` of overwritten().
  Status write(const std::string& path, std::size_t count) const;
};

// An error if the recording has no last uses, or lacks its first events.
Result<OverwritePlan> overwrite_plan(const model::Trace& trace);
Result<OverwritePlan> overwrite_plan(const std::string& path);

}  // namespace plimsoll::engine
