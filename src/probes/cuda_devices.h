// Maps the CUDA devices of this process to the driver's GPUs. CUDA numbers the devices that
// CUDA_VISIBLE_DEVICES exposes in its own order and, with MIG, an instance instead of its GPU: only
// UUIDs identify them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/nvml.h"

namespace plimsoll::probes {

// The UUIDs by ordinal, such as "8932f937-d72c-4106-c12f-20bd9faed9f6", from the CUDA driver that
// the program has loaded and initialized; empty if it has not done so.
std::vector<std::string> cuda_device_uuids(const std::string& library = "libcuda.so.1");

// The GPU or MIG instance with this UUID (with or without the prefix "GPU-" or "MIG-"). Null if
// there is none, or if the instance cannot be determined.
const GpuDevice* find_gpu(const std::vector<GpuDevice>& devices, std::string_view uuid);

}  // namespace plimsoll::probes
