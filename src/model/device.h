// The devices of a recording: their types, as far as PyTorch's recordings name them, and numbers.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

namespace plimsoll::model {

enum class DeviceType : std::uint8_t {
  kCuda,
  kHip,
  kXpu,
  kMtia,
  kNpu,
  kHpu,
  kMps,
  kOther,
  kCpu,
  kPinnedHost
};
inline constexpr std::array kAccelerators{DeviceType::kCuda, DeviceType::kHip,  DeviceType::kXpu,
                                          DeviceType::kMtia, DeviceType::kNpu,  DeviceType::kHpu,
                                          DeviceType::kMps,  DeviceType::kOther};
const char* to_string(DeviceType type);  // "cpu", "cuda", ...

struct Device {
  DeviceType type = DeviceType::kCuda;
  std::int32_t ordinal =
      0;  // -1 for the CPU, as torch.profiler writes it; -2 for pinned host memory

  friend auto operator<=>(const Device&, const Device&) = default;
};
std::string to_string(Device device);  // "cuda:0", "cpu"

}  // namespace plimsoll::model
