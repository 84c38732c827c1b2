// The use of a device's memory: parts that sum to the used bytes, exactly. The figures come from
// the driver, from PyTorch's allocator and from the process itself, and are read at different
// times. If they disagree, the last part shows the difference, which may be negative. Nothing is
// clamped, and unknown figures are not guessed: they belong to the last part, whose kind shows it.
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
  std::optional<std::uint64_t> used_bytes = {};  // absent: the driver does not report
};

struct DeviceFigures {
  // The driver's, of all processes. Without these two there is no bar.
  std::optional<std::uint64_t> total_bytes = {};
  std::optional<std::uint64_t> free_bytes = {};
  std::optional<std::uint64_t> driver_bytes = {};  // that driver and firmware keep for themselves
  // Ours.
  std::optional<std::uint64_t> allocated_bytes = {};
  std::optional<std::uint64_t> reserved_bytes = {};
  // Of this process, from the driver; 0: it does not use the device; absent: the driver does not
  // report it, or this process cannot be identified.
  std::optional<std::uint64_t> own_bytes = {};
  std::optional<std::uint64_t> context_bytes =
      {};                                     // of own_bytes, what CUDA itself took at the start
  bool has_nccl = false;                      // of which the process is known to have communicators
  std::vector<DeviceProcess> processes = {};  // all others
  bool tells_processes = true;                // false: there may be others that are not listed
};

// nullopt: what is used is unknown.
std::optional<DeviceBar> device_bar(const DeviceFigures& figures);

// What people call a part: "CUDA context and modules".
std::string part_label(const DevicePart& part);
// "tensors 48.0 GiB, cached 12.0 GiB, process 77 (python) 10.0 GiB, unexplained 5.0 MiB"; parts of
// nothing are left out.
std::string parts_text(const DeviceBar& bar);

// What is used and is not our caching allocator's: PyTorch's users call it non-PyTorch memory.
// nullopt: the allocator's bytes are unknown.
std::optional<std::int64_t> outside_bytes(const DeviceBar& bar);

}  // namespace plimsoll::base
