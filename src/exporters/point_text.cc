#include "exporters/point_text.h"

#include <algorithm>

#include "base/units.h"
#include "exporters/labels.h"
#include "text/layout.h"

namespace plimsoll::exporters {
namespace {

// ", in step 3, forward of UNet.up.1 (aten::cat)"
std::string activity_text(const report::PointInTime& point) {
  std::string text;
  const bool is_named = point.name.starts_with("step:");
  if (point.step && !is_named) text += ", in step " + base::format_count(*point.step);
  if (!point.region.empty()) text += ", in " + text::printable(point.region);
  if (point.phase.empty() || point.phase == "other") return text;
  text += ", in " + point.phase;
  if (!point.layer.empty()) text += " of " + text::printable(point.layer);
  if (!point.op.empty()) text += " (" + text::printable(point.op) + ")";
  return text;
}

// " (failure 2 of 3)"
std::string which_text(const report::DeviceReport& device, const report::PointInTime& point) {
  const std::size_t colon = point.name.find(':');
  if (colon == std::string::npos) return {};
  return " (failure " + point.name.substr(colon + 1) + " of " +
         base::format_count(device.oom_details.size()) + ")";
}

}  // namespace

std::uint64_t older_bytes(const report::PointInTime& point) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, point.unexplained_bytes));
}

std::string point_place(const report::DeviceReport& device, const report::PointInTime& point) {
  std::string at;
  if (point.name == "peak" && device.events > 0) at = "at its peak";
  if (point.name == "end" || device.events == 0) at = "at the end";
  if (point.name == "start") at = "at the start";
  if (point.name.starts_with("step:")) at = "at the peak of step " + point.name.substr(5);
  if (point.name.starts_with("oom")) at = "when it ran out of memory" + which_text(device, point);
  if (point.event) {
    at += at.empty() ? "after " : ", ";
    at += point_text(device, point.event, point.time_ns);
  }
  return at + activity_text(point);
}

std::string point_bytes(const report::DeviceReport& device, const report::PointInTime& point) {
  std::string text = bytes_text(point.live_bytes + older_bytes(point));
  if (older_bytes(point) > 0) text += ", " + bytes_text(point.live_bytes) + " of it";
  if (device.allocated) text += " allocated";
  return text + " in " + base::format_count(point.live_count) +
         (point.live_count == 1 ? " allocation" : " allocations");
}

std::string point_heading(const report::DeviceReport& device, const report::PointInTime& point) {
  const std::string place = point_place(device, point);
  return "What fills " + device_name(device) + (place.empty() || place[0] == ',' ? "" : " ") +
         place + ": " + point_bytes(device, point);
}

std::string share_text(std::uint64_t bytes, const report::PointInTime& point) {
  const auto whole = static_cast<double>(point.live_bytes + older_bytes(point));
  return whole == 0 ? "" : base::format_percent(static_cast<double>(bytes) / whole);
}

}  // namespace plimsoll::exporters
