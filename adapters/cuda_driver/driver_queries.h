// Queries to the driver about devices. They go only to a driver that the program has already
// loaded, and only after one of its calls has returned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::cuda_driver {

// The device of the calling thread's context; 0 if the driver does not report it.
int current_device() noexcept;
// The device of the memory at an address; `otherwise` if the driver does not report it.
int device_of(std::uint64_t address, int otherwise) noexcept;
// "GPU-8-4-4-4-12", by ordinal; empty if the driver does not report it.
std::vector<std::string> device_uuids();

struct DeviceMemory {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};
// Memory of the current device; zeros if the driver does not report it.
DeviceMemory device_memory() noexcept;

}  // namespace plimsoll::cuda_driver
