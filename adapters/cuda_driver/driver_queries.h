// What the driver is asked about devices: only of a driver that the program has loaded already, and
// only after one of its calls came back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::cuda_driver {

// Of the calling thread's context; 0 where the driver does not say.
int current_device() noexcept;
// Of the memory at an address; `otherwise` where the driver does not say.
int device_of(std::uint64_t address, int otherwise) noexcept;
// "GPU-8-4-4-4-12", by ordinal; empty where the driver does not say.
std::vector<std::string> device_uuids();

struct DeviceMemory {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};
// Of the current device; zeros where the driver does not say.
DeviceMemory device_memory() noexcept;

}  // namespace plimsoll::cuda_driver
