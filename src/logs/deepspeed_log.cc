#include "logs/deepspeed_log.h"

#include <utility>

#include "logs/numbers.h"

namespace plimsoll::logs {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;  // DeepSpeed calls them GB

// "0.84" of "MA 0.84 GB", if the key is a word of its own.
std::optional<std::uint64_t> size_after(std::string_view line, std::string_view key) {
  std::size_t at = line.find(key);
  while (at != std::string_view::npos && at > 0 && line[at - 1] != ' ') at = line.find(key, at + 1);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = trimmed(line.substr(at + key.size()));
  const std::size_t end = rest.find(" GB");
  if (end == std::string_view::npos) return std::nullopt;
  return bytes_of(number_in<double>(rest.substr(0, end)), kGib);
}

// "MA 0.84 GB  Max_MA 0.9 GB  CA 1.0 GB  Max_CA 1 GB": allocated, its peak, reserved, its peak.
std::optional<DeviceMemory> device_in(std::string_view line) {
  DeviceMemory device;
  device.name = DeepSpeedLog::kDevice;
  device.allocated_bytes = size_after(line, "MA ");
  device.peak_bytes = size_after(line, "Max_MA ");
  device.reserved_bytes = size_after(line, "CA ");
  const bool is_known = device.allocated_bytes && device.peak_bytes && device.reserved_bytes &&
                        size_after(line, "Max_CA ");
  return is_known ? std::optional(device) : std::nullopt;
}

}  // namespace

bool DeepSpeedLog::knows(std::string_view line) { return device_in(line).has_value(); }

void DeepSpeedLog::line(std::string_view line) {
  if (auto device = device_in(line)) {
    finish();
    sample_.emplace();
    sample_->iteration = readings_++;
    sample_->devices.push_back(*std::move(device));
    return;
  }
  if (!sample_ || line.find("CPU Virtual Memory:") == std::string_view::npos) return;
  sample_->host.used_bytes = size_after(line, "used =");
  finish();
}

void DeepSpeedLog::finish() {
  if (sample_) sink_(*std::exchange(sample_, std::nullopt));
}

}  // namespace plimsoll::logs
