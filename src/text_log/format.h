// The fixed texts of a text log, shared by its writer and its reader.
#pragma once

#include <string_view>

namespace plimsoll::text_log {

inline constexpr std::string_view kProfilesFolder = "profiles";
inline constexpr std::string_view kTextLogPrefix = "tensor_profile_";
inline constexpr std::string_view kTextLogSuffix = ".log";
inline constexpr std::string_view kTextLogMagic = "# Plimsoll tensor profile, format";
inline constexpr std::string_view kDeviceKey = "Device";  // begins the lines about a device
inline constexpr const char* kRanOut = "out of memory";
inline constexpr const char* kRanOutOf = " of ";  // followed by the device if known

}  // namespace plimsoll::text_log
