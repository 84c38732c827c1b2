// Reads what DeepSpeed's see_memory_usage() prints into the log of a training: a line with the
// figures of PyTorch's allocator on the current device, and one with the memory of the host. The
// size of a sample is known to 0.01 GiB.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "plimsoll/memory_sample.h"

namespace plimsoll::logs {

class DeepSpeedLog {
 public:
  using Sink = std::function<void(const MemorySample&)>;

  static constexpr std::string_view kDevice = "gpu";

  explicit DeepSpeedLog(Sink sink) : sink_(std::move(sink)) {}

  // Whether a line has the figures of a device.
  static bool knows(std::string_view line);

  // Lines of the program's own are passed over.
  void line(std::string_view line);
  void finish();

 private:
  Sink sink_;
  std::optional<MemorySample> sample_;  // until its figures of the host are known
  std::int64_t readings_ = 0;
};

}  // namespace plimsoll::logs
