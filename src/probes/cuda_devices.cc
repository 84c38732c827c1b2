#include "probes/cuda_devices.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

namespace plimsoll::probes {
namespace {

// The parts of the CUDA driver's types that are needed here.
using CudaAnswer = int;
using CudaDevice = int;
constexpr CudaAnswer kCudaSuccess = 0;
constexpr int kMostCudaDevices = 256;
using Uuid = std::array<unsigned char, 16>;

std::string text_of(const Uuid& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid[i] >> 4];
    text += kDigits[uuid[i] & 15];
  }
  return text;
}

std::string_view without_prefix(std::string_view uuid) {
  for (const std::string_view prefix : {"GPU-", "MIG-"}) {
    if (uuid.starts_with(prefix)) return uuid.substr(prefix.size());
  }
  return uuid;
}

bool is_instance_of(const GpuDevice& device, const GpuDevice& gpu) {
  return device.index.starts_with(gpu.index + ":");
}

}  // namespace

std::vector<std::string> cuda_device_uuids(const std::string& library) {
  void* opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (opened == nullptr) return {};
  const auto resolve = [&](auto& function, const char* symbol) {
    if (function == nullptr) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(opened, symbol));
    }
  };
  CudaAnswer (*count_of)(int*) = nullptr;
  CudaAnswer (*device_of)(CudaDevice*, int) = nullptr;
  CudaAnswer (*uuid_of)(Uuid*, CudaDevice) = nullptr;
  resolve(count_of, "cuDeviceGetCount");
  resolve(device_of, "cuDeviceGet");
  resolve(uuid_of, "cuDeviceGetUuid_v2");  // for a MIG instance: its own
  resolve(uuid_of, "cuDeviceGetUuid");     // for a MIG instance: its GPU's
  std::vector<std::string> reported;
  int count = 0;
  if (count_of != nullptr && device_of != nullptr && uuid_of != nullptr &&
      count_of(&count) == kCudaSuccess) {
    for (int ordinal = 0; ordinal < std::min(count, kMostCudaDevices); ++ordinal) {
      CudaDevice device = 0;
      Uuid uuid{};
      const bool is_reported =
          device_of(&device, ordinal) == kCudaSuccess && uuid_of(&uuid, device) == kCudaSuccess;
      reported.push_back(is_reported ? text_of(uuid) : std::string());
    }
  }
  ::dlclose(opened);
  return reported;
}

const GpuDevice* find_gpu(const std::vector<GpuDevice>& devices, std::string_view uuid) {
  uuid = without_prefix(uuid);
  if (uuid.empty()) return nullptr;
  const auto found = std::ranges::find_if(
      devices, [&](const GpuDevice& device) { return without_prefix(device.uuid) == uuid; });
  if (found == devices.end()) return nullptr;
  // CUDA never runs on a whole GPU that is split into instances, so the UUID of a GPU means that an
  // older driver has returned it for the instance.
  const GpuDevice* instance = nullptr;
  for (const GpuDevice& device : devices) {
    if (!is_instance_of(device, *found)) continue;
    if (instance != nullptr) return nullptr;
    instance = &device;
  }
  return instance != nullptr ? instance : &*found;
}

}  // namespace plimsoll::probes
