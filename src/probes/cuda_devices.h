// Which of the driver's GPUs the CUDA devices of this process are. CUDA counts what
// CUDA_VISIBLE_DEVICES lets it see, in an order of its own, and with MIG an instance instead of
// its GPU: only the UUIDs say which is which.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/nvml.h"

namespace plimsoll::probes {

// By ordinal: "8932f937-d72c-4106-c12f-20bd9faed9f6". Asks the CUDA driver that the program has
// loaded and initialized; empty: it has not.
std::vector<std::string> cuda_device_uuids(const std::string& library = "libcuda.so.1");

// The GPU, or the MIG instance, that has this UUID ("GPU-" or "MIG-" before it or not). Null: none
// has it, or which instance it is cannot be told.
const GpuDevice* find_gpu(const std::vector<GpuDevice>& devices, std::string_view uuid);

}  // namespace plimsoll::probes
