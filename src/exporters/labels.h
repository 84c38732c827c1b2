// Labels that text reports and pages share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "report/device_report.h"
#include "report/report.h"

namespace plimsoll::exporters {

using base::bytes_text;
std::uint64_t magnitude(std::int64_t bytes);

std::string device_name(const report::DeviceReport& device);  // "cuda:0", "cpu"
// Whether `text` ("0", "cuda:0", "cpu"; empty: any) means this device.
bool is_asked_for(const report::DeviceReport& device, std::string_view text);

// Whether a report describes the device in a section of its own. Host memory gets one line instead
// if a GPU has at least ten times as much, unless it grows, ran out, or was asked for.
bool has_section(const report::Report& report, const report::DeviceReport& device,
                 std::string_view asked_for);

// The line about a device without a section.
std::string small_text(const report::DeviceReport& device);

// "event 1,843 of 6,486 (25.4 ms)"; "before the first event" if there is no event.
std::string point_text(const report::DeviceReport& device, std::optional<std::uint64_t> event,
                       std::optional<std::int64_t> time_ns);

}  // namespace plimsoll::exporters
