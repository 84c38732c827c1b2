#include "exporters/terminal/moment.h"

#include <algorithm>

#include "base/units.h"
#include "exporters/terminal/words.h"
#include "text/layout.h"

namespace plimsoll::exporters::terminal {
namespace {

// ", in step 3, forward of UNet.up.1 (aten::cat)"
std::string doing_text(const report::MomentRow& moment) {
  std::string text;
  if (moment.step) text += ", in step " + base::format_count(*moment.step);
  if (moment.phase.empty() || moment.phase == "other") return text;
  text += ", in " + moment.phase;
  if (!moment.layer.empty()) text += " of " + text::printable(moment.layer);
  if (!moment.op.empty()) text += " (" + text::printable(moment.op) + ")";
  return text;
}

// " (failure 2 of 3)"
std::string which_text(const report::DeviceReport& device, const report::MomentRow& moment) {
  const std::size_t colon = moment.name.find(':');
  if (colon == std::string::npos) return {};
  return " (failure " + moment.name.substr(colon + 1) + " of " +
         base::format_count(device.oom_details.size()) + ")";
}

}  // namespace

std::string bold_line(const std::string& text, text::Color color) {
  return text::styled(text, text::Style::kBold, color) + "\n";
}

std::uint64_t older_bytes(const report::MomentRow& moment) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, moment.unexplained_bytes));
}

std::string moment_heading(const report::DeviceReport& device, const report::MomentRow& moment) {
  std::string at;
  if (moment.name == "peak" && device.events > 0) at = " at its peak";
  if (moment.name == "end" || device.events == 0) at = " at the end";
  if (moment.name == "start") at = " at the start";
  if (moment.name.starts_with("oom"))
    at = " when it ran out of memory" + which_text(device, moment);
  if (moment.event) {
    at += at.empty() ? " after " : ", ";
    at += moment_text(device, moment.event, moment.time_ns);
  }
  std::string text = "What fills " + device_name(device) + at + doing_text(moment) + ": " +
                     bytes_text(moment.live_bytes + older_bytes(moment));
  if (older_bytes(moment) > 0) text += ", " + bytes_text(moment.live_bytes) + " of it";
  if (device.allocated) text += " allocated";
  return text + " in " + base::format_count(moment.live_count) +
         (moment.live_count == 1 ? " allocation" : " allocations");
}

std::string share_text(std::uint64_t bytes, const report::MomentRow& moment) {
  const auto whole = static_cast<double>(moment.live_bytes + older_bytes(moment));
  return whole == 0 ? "" : base::format_percent(static_cast<double>(bytes) / whole);
}

}  // namespace plimsoll::exporters::terminal
