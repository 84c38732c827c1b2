#include "logs/printed_log.h"

#include <algorithm>

#include "logs/labelled.h"

namespace plimsoll::logs {
namespace {

bool has_allocated(const MemorySample& sample) {
  return std::ranges::any_of(sample.devices,
                             [](const auto& device) { return device.allocated_bytes.has_value(); });
}

bool repeats(const MemorySample& sample, const MemorySample& later) {
  return std::ranges::any_of(later.devices, [&](const DeviceMemory& device) {
    const auto known = std::ranges::find(sample.devices, device.name, &DeviceMemory::name);
    return device.allocated_bytes && known != sample.devices.end() && known->allocated_bytes;
  });
}

}  // namespace

bool PrintedLog::line(std::string_view line) {
  const auto number = iteration_in(line);
  MemorySample figures;
  const bool has_figures = take_labelled(line, figures);
  if (number || (sample_ && repeats(*sample_, figures))) finish();
  if (number) iteration_ = number;
  if (!has_figures) return has_begun_;
  has_begun_ = has_begun_ || has_allocated(figures);
  if (!sample_) {
    sample_ = std::move(figures);
  } else {
    add_figures(std::move(figures), *sample_);
  }
  return has_begun_;
}

// Without a device, the figures are those of the host alone, and do not count.
void PrintedLog::finish() {
  auto sample = std::exchange(sample_, std::nullopt);
  if (!has_begun_ || !sample || sample->devices.empty()) return;
  sample->iteration = iteration_.value_or(readings_);
  ++readings_;
  sink_(*sample);
}

}  // namespace plimsoll::logs
