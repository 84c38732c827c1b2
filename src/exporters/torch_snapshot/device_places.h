// The index of each device in device_traces: PyTorch's readers use the index as the device's
// number.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"

namespace plimsoll::exporters::torch_snapshot {

class DevicePlaces {
 public:
  explicit DevicePlaces(const model::Trace& trace);

  // By index; null if no device has it.
  const std::vector<const model::DeviceTrace*>& devices() const { return devices_; }
  std::uint64_t of(model::Device device) const;
  // Pinned host memory has separate lists; null if the trace has none.
  const model::DeviceTrace* pinned_host() const { return pinned_host_; }

 private:
  std::vector<const model::DeviceTrace*> devices_;
  const model::DeviceTrace* pinned_host_ = nullptr;
};

}  // namespace plimsoll::exporters::torch_snapshot
