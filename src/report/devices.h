// Queries about the devices of a report.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "report/device_report.h"
#include "report/report.h"

namespace plimsoll::report {

// Whether events, live memory or the driver's figures were recorded for the device.
inline bool has_content(const DeviceReport& device) {
  return device.events > 0 || device.segments > 0 || device.requested_active.peak_bytes != 0 ||
         !device.bars.empty();
}

// By how much the process has grown after the third step, if tensors do not explain it: freed ones
// may leave twice their peak with the C library, which does not return it. Else 0.
inline std::uint64_t growth_outside_tensors(const DeviceReport& cpu) {
  constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 20;
  constexpr std::uint64_t kTimesTheTensors = 2;
  const std::uint64_t growth = cpu.process_growth_bytes.value_or(0);
  const auto peak =
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, cpu.live_totals().peak_bytes));
  return growth >= kLeastBytes && growth / kTimesTheTensors >= peak ? growth : 0;
}

// Whether the device is host memory: the CPU's, or pinned for transfers.
inline bool is_host(const DeviceReport& device) {
  return device.device_type == "cpu" || device.device_type == "pinned_host";
}

// Whether the memory that matters is on another device, so reports need not explain what fills this
// one. Two cases:
// - Host memory, such as a model that is built on the CPU and then moved, or batches. Its peak is
//   at most the peak of a GPU; or it is below 1 GiB, which every host has, and at most 16 times the
//   peak of the GPU.
// - A GPU whose peak is less than 2 % of the peak of the fullest one.
inline bool is_minor(const Report& report, const DeviceReport& device) {
  constexpr std::int64_t kSmallOnHost = std::int64_t{1} << 30;
  constexpr std::int64_t kFactorOfHost = 16;
  constexpr std::int64_t kFactorOfGpu = 50;
  std::int64_t most = 0;  // of the other GPUs
  for (const DeviceReport& other : report.devices) {
    if (&other != &device && !is_host(other)) most = std::max(most, other.live_totals().peak_bytes);
  }
  const std::int64_t peak = device.live_totals().peak_bytes;
  if (!is_host(device)) return peak < most / kFactorOfGpu;
  return most > 0 && (peak <= most || (peak < kSmallOnHost && peak / kFactorOfHost <= most));
}

// Whether the program caught the failure at this event and went on: many events follow it.
inline bool went_on_after(const DeviceReport& device, std::uint64_t oom_event) {
  constexpr std::uint64_t kEventsAfterRecovery = 1'000;
  return device.events > oom_event && device.events - oom_event > kEventsAfterRecovery;
}

// The device with the highest peak, the CPU only as a last resort; nullptr: nothing was recorded.
inline const DeviceReport* main_device(const Report& report) {
  const auto weight = [](const DeviceReport& device) {
    return std::pair(device.device_type != "cpu", device.live_totals().peak_bytes);
  };
  const DeviceReport* best = nullptr;
  for (const DeviceReport& device : report.devices) {
    if (!has_content(device)) continue;
    if (best == nullptr || weight(device) > weight(*best)) best = &device;
  }
  return best;
}

// nullptr if the report has no device with this number.
inline const DeviceReport* find_device(const Report& report, std::int32_t ordinal) {
  const auto found = std::ranges::find(report.devices, ordinal, &DeviceReport::device);
  return found == report.devices.end() ? nullptr : &*found;
}

}  // namespace plimsoll::report
