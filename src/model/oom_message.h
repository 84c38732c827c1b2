// The figures of one failed request in a printed "CUDA out of memory" message. They are rounded to
// two decimals of their unit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/device_bar.h"
#include "model/device.h"

namespace plimsoll::model {

// What a message of another program than PyTorch means.
struct KnownText {
  std::string title;     // the verdict
  std::string evidence;  // what the program does
  std::string quotation;
  std::vector<std::string> steps;
};

struct OomMessage {
  Device device;
  std::uint64_t requested_bytes = 0;              // 0 if a known text does not state it
  std::optional<std::uint64_t> total_bytes = {};  // of the device
  std::optional<std::uint64_t> free_bytes = {};   // at the driver
  std::optional<std::uint64_t> limit_bytes = {};  // of this process
  // Of this process: all its memory, the part its tensors use, and the part PyTorch's allocator has
  // reserved.
  std::optional<std::uint64_t> process_bytes = {};
  std::optional<std::uint64_t> allocated_bytes = {};
  std::optional<std::uint64_t> reserved_bytes = {};
  std::optional<std::uint64_t> private_pool_bytes = {};  // part of allocated_bytes
  std::vector<base::DeviceProcess> processes = {};       // all other processes
  std::optional<KnownText> known = {};                   // of another program
  bool is_from_windows = false;                          // false if unknown
};

}  // namespace plimsoll::model
