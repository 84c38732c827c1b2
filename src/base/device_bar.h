// How a device's memory is used: parts that add up exactly to the used bytes. The figures come from
// the driver, from PyTorch's allocator and from the process itself, and are read at different
// times. The last part shows the remainder, which is negative if the figures disagree. Nothing is
// clamped, and unknown figures are not guessed: the last part includes them, as its kind shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/memory_sample.h"

namespace plimsoll::base {

struct DeviceProcess {
  std::int64_t pid = 0;
  std::string name = {};                         // empty: unknown
  std::optional<std::uint64_t> used_bytes = {};  // absent: the driver does not report it
};

struct DeviceFigures {
  // From the driver, for all processes. Without these two there is no bar.
  std::optional<std::uint64_t> total_bytes = {};
  std::optional<std::uint64_t> free_bytes = {};
  std::optional<std::uint64_t> driver_bytes = {};  // reserved by driver and firmware
  // This process, from the allocator:
  std::optional<std::uint64_t> allocated_bytes = {};
  std::optional<std::uint64_t> reserved_bytes = {};
  // This process, from the driver; 0: it does not use the device; absent: the driver does not
  // report it, or this process cannot be identified.
  std::optional<std::uint64_t> own_bytes = {};
  std::optional<std::uint64_t> context_bytes =
      {};  // part of own_bytes: allocated by CUDA itself at its start
  // Of the CPU: the most that own_bytes has ever been.
  std::optional<std::uint64_t> highest_bytes = {};
  // Of the CPU: freed memory that the C library has not returned; part of own_bytes.
  std::optional<std::uint64_t> free_heap_bytes = {};
  bool has_nccl = false;                      // the context is known to include communicators
  std::vector<DeviceProcess> processes = {};  // all other processes
  bool reports_processes = true;              // false: there may be others that are not listed
};

// nullopt if the used bytes are unknown.
std::optional<DeviceBar> device_bar(const DeviceFigures& figures);

// The display name of a part, such as "CUDA context and modules".
std::string part_label(const DevicePart& part);
// "tensors 48.0 GiB, cached 12.0 GiB, process 77 (python) 10.0 GiB, unexplained 5.0 MiB". Empty
// parts are omitted.
std::string parts_text(const DeviceBar& bar);

// Used memory outside our caching allocator, which PyTorch users call non-PyTorch memory. nullopt
// if the allocator's bytes are unknown.
std::optional<std::int64_t> outside_bytes(const DeviceBar& bar);

}  // namespace plimsoll::base
