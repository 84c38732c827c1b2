// Reads the memory that a training program prints in its own words (labelled.h), such as the lines
// of an EpochMemoryMonitor, or the logs of other profilers. A sample begins at a line that numbers
// an iteration, or at a figure that the current sample already has.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "plimsoll/memory_sample.h"

namespace plimsoll::logs {

class PrintedLog {
 public:
  using Sink = std::function<void(const MemorySample&)>;

  explicit PrintedLog(Sink sink) : sink_(std::move(sink)) {}

  // Returns whether this line or an earlier one states how much of a device is allocated. Samples
  // begin with that line; figures before it, of the same iteration, belong to the first.
  bool line(std::string_view line);
  void finish();

 private:
  Sink sink_;
  std::optional<MemorySample> sample_;  // the current one
  std::optional<std::int64_t> iteration_;
  std::int64_t readings_ = 0;
  bool has_begun_ = false;
};

}  // namespace plimsoll::logs
