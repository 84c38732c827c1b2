// Sizes as people read them: MiB and GiB with one decimal, smaller sizes in B and KiB. Machine
// output has plain bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::base {

std::string bytes_text(std::int64_t bytes);     // "12.3 GiB", "512 B", "-1.5 MiB"
std::string bytes_text(std::uint64_t bytes);    // at most 2^63 - 1; hostile files have more
std::string bytes_text(double bytes);           // rounded, within the range of an int64_t
std::string format_count(std::uint64_t count);  // "12,345"
std::string counted(std::uint64_t count, const char* singular);  // "1 block", "12,345 blocks"
std::string format_duration(std::int64_t duration_ns);           // "1.5 ms", "3.2 s"
std::string format_utc(std::int64_t time_ns);  // "2026-11-23 08:03:24 UTC"; "" outside the
                                               // calendar's range
std::string format_percent(double share);      // 0.123 -> "12.3%"

// Parses a size: "65536", "64 KiB", "1.5GiB", ".5 mb". KB, MB, GB and TB mean the same as KiB, MiB,
// GiB and TiB, in any case. Rounds down to whole bytes. Returns nullopt for anything else.
std::optional<std::int64_t> parse_bytes(std::string_view text);
// Whether the text is a size that parse_bytes() does not accept because it is above kLargestSize.
bool is_too_large(std::string_view text);
inline constexpr const char* kLargestSize = "8388606 TiB";
// What is wrong with a text that parse_bytes() does not accept: "is not a size; write …".
std::string size_error(std::string_view text);

}  // namespace plimsoll::base
