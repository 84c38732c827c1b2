// Units of bytes for tests.
#pragma once

#include <cstdint>

namespace plimsoll::tests {

inline constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

}  // namespace plimsoll::tests
