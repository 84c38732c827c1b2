// The devices of a recording: their types, as named in PyTorch's recordings, and their numbers.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <tuple>

#include "base/recorder_names.h"

namespace plimsoll::model {

using base::DeviceType;

inline constexpr std::array kAccelerators{DeviceType::kCuda, DeviceType::kHip,  DeviceType::kXpu,
                                          DeviceType::kMtia, DeviceType::kNpu,  DeviceType::kHpu,
                                          DeviceType::kMps,  DeviceType::kOther};

struct Device {
  DeviceType type = DeviceType::kCuda;
  std::int32_t ordinal =
      0;  // -1 for the CPU, as torch.profiler writes it; -2 for pinned host memory

  friend bool operator==(const Device&, const Device&) = default;
  // Accelerators sort before host memory.
  friend constexpr auto operator<=>(const Device& a, const Device& b) {
    return std::tuple(base::is_host(a.type), a.type, a.ordinal) <=>
           std::tuple(base::is_host(b.type), b.type, b.ordinal);
  }
};
inline std::string to_string(Device device) {
  return base::device_name(device.type, device.ordinal);
}

}  // namespace plimsoll::model
