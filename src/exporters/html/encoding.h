// Base64, and SHA-256 for the hashes of a Content-Security-Policy.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::exporters::html {

std::string base64(std::string_view bytes);  // RFC 4648, with padding

std::array<std::uint8_t, 32> sha256(std::string_view bytes);  // FIPS 180-4

// "'sha256-…'": the source expression that allows a style or script with exactly this text.
std::string hash_source(std::string_view text);

}  // namespace plimsoll::exporters::html
