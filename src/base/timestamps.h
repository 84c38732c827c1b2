// Timestamps in the formats that logs use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::base {

std::int64_t now_ns();  // since 1970

std::string utc_text(std::int64_t time_ns);     // "2026-11-20T16:40:13.125Z"
std::string local_stamp(std::int64_t time_ns);  // "20261120_174013", for file names

// Parses "2026-11-20T16:40:13.125Z", "2026/04/25 16:06:06.780" or "2025-09-08T17:26:50+08:00". Text
// without a zone is taken as UTC.
std::optional<std::int64_t> parse_time(std::string_view text);

}  // namespace plimsoll::base
