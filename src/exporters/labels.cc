#include "exporters/labels.h"

#include <algorithm>

#include "base/units.h"
#include "report/devices.h"
#include "text/layout.h"

namespace plimsoll::exporters {

std::uint64_t magnitude(std::int64_t bytes) {
  const auto bits = static_cast<std::uint64_t>(bytes);
  return bytes < 0 ? std::uint64_t{0} - bits : bits;
}

std::string device_name(const report::DeviceReport& device) {
  const std::string type = text::printable(device.device_type);
  return device.device < 0 ? type : type + ":" + std::to_string(device.device);
}

bool is_asked_for(const report::DeviceReport& device, std::string_view text) {
  return text.empty() || text == device_name(device) || text == std::to_string(device.device);
}

bool has_section(const report::Report& report, const report::DeviceReport& device,
                 std::string_view asked_for) {
  constexpr std::int64_t kTimesAsMuch = 10;
  if (!asked_for.empty() || !report::is_host(device) || !report::is_minor(report, device)) {
    return true;
  }
  const bool grows = std::ranges::any_of(
      report.tables.growth, [&](const auto& row) { return row.device == device.device; });
  if (grows || !device.oom_details.empty()) return true;
  std::int64_t most = 0;
  for (const report::DeviceReport& other : report.devices) {
    if (!report::is_host(other)) most = std::max(most, other.live_totals().peak_bytes);
  }
  return device.live_totals().peak_bytes > most / kTimesAsMuch;
}

std::string small_text(const report::DeviceReport& device) {
  const std::string name = device_name(device);
  return name + ": peak " + base::bytes_text(device.live_totals().peak_bytes) + ", end " +
         base::bytes_text(device.live_totals().end_bytes) +
         ", small next to the GPU's. Its tables: --device " + name + ".";
}

std::string point_text(const report::DeviceReport& device, std::optional<std::uint64_t> event,
                       std::optional<std::int64_t> time_ns) {
  if (!event) return device.events == 0 ? "no events were recorded" : "before the first event";
  std::string text =
      "event " + base::format_count(*event) + " of " + base::format_count(device.events);
  if (time_ns && device.first_time_ns) {
    text += " (" + base::format_duration(*time_ns - *device.first_time_ns) + ")";
  }
  return text;
}

}  // namespace plimsoll::exporters
