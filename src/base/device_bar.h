// Who holds a device's memory: parts that sum to what is used, to the byte. The figures come from
// the driver, from our allocator and from the process itself, and are taken at different moments:
// where they do not agree, the last part says by how much, below zero if need be. Nothing is
// clamped, and what is not known is not guessed: it is part of what is left, whose kind says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/memory_sample.h"

namespace plimsoll::base {

struct DeviceProcess {
  std::int64_t pid = 0;
  std::string name = {};                         // empty: not known
  std::optional<std::uint64_t> used_bytes = {};  // absent: the driver does not tell
};

struct DeviceFigures {
  // The driver's, of all processes. Without these two there is no bar.
  std::optional<std::uint64_t> total_bytes = {};
  std::optional<std::uint64_t> free_bytes = {};
  std::optional<std::uint64_t> driver_bytes = {};  // that driver and firmware keep for themselves
  // Ours.
  std::optional<std::uint64_t> allocated_bytes = {};
  std::optional<std::uint64_t> reserved_bytes = {};
  // Of this process, as the driver tells; 0: it is not on the device; absent: the driver does not
  // say, or not which one is ours.
  std::optional<std::uint64_t> own_bytes = {};
  std::optional<std::uint64_t> context_bytes =
      {};                                     // of own_bytes, what CUDA itself took at the start
  bool has_nccl = false;                      // of which the process is known to have communicators
  std::vector<DeviceProcess> processes = {};  // all others
  bool tells_processes = true;                // false: there may be others that are not listed
};

// nullopt: what is used is not known.
std::optional<DeviceBar> device_bar(const DeviceFigures& figures);

// What people call a part: "CUDA context and modules".
std::string part_label(const DevicePart& part);
// "tensors 48.0 GiB, cached 12.0 GiB, process 77 (python) 10.0 GiB, unexplained 5.0 MiB"; parts of
// nothing are left out.
std::string parts_text(const DeviceBar& bar);

// What is used and is not our caching allocator's: PyTorch's users call it non-PyTorch memory.
// nullopt: the allocator's bytes are not known.
std::optional<std::int64_t> outside_bytes(const DeviceBar& bar);

}  // namespace plimsoll::base
