#include "exporters/torch_snapshot/device_places.h"

namespace plimsoll::exporters::torch_snapshot {
namespace {

// PyTorch's own device numbers end at 127. An entry is cheap, but a billion of them are not.
constexpr std::int32_t kMostPlaces = 1024;

}  // namespace

DevicePlaces::DevicePlaces(const model::Trace& trace) {
  std::vector<const model::DeviceTrace*> after;
  for (const model::DeviceTrace& device : trace.devices) {
    if (device.device.type == model::DeviceType::kPinnedHost && pinned_host_ == nullptr) {
      pinned_host_ = &device;
      continue;
    }
    const std::int32_t ordinal = device.device.ordinal;
    const bool has_place =
        device.device.type != model::DeviceType::kCpu && ordinal >= 0 && ordinal < kMostPlaces;
    const auto place = static_cast<std::size_t>(ordinal);
    if (has_place && place >= devices_.size()) devices_.resize(place + 1);
    if (has_place && devices_[place] == nullptr) {
      devices_[place] = &device;
    } else {
      after.push_back(&device);
    }
  }
  devices_.insert(devices_.end(), after.begin(), after.end());
}

std::uint64_t DevicePlaces::of(model::Device device) const {
  for (std::size_t place = 0; place < devices_.size(); ++place) {
    if (devices_[place] != nullptr && devices_[place]->device == device) return place;
  }
  return device.ordinal < 0 ? devices_.size() : static_cast<std::uint64_t>(device.ordinal);
}

}  // namespace plimsoll::exporters::torch_snapshot
