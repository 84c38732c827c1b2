// Bounds the figures of a trace, so that no sum or difference of them exceeds 64 bits, signed or
// unsigned. A hostile file may contain any number; passes and exporters only add bounded ones.
#pragma once

#include <cstdint>

#include "base/diagnostics.h"
#include "model/trace.h"
#include "plimsoll/result.h"

namespace plimsoll::model {

inline constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;  // of any single size: 1 PiB
inline constexpr std::uint64_t kMostRequestBytes = std::uint64_t{1} << 60;  // of a failed request
inline constexpr std::uint64_t kMostTotalBytes = std::uint64_t{1} << 61;    // of the whole trace
inline constexpr std::int64_t kLatestNs = (std::int64_t{1} << 62) - 1;      // the year 2116

// Lowers figures above a bound to that bound, and counts them. Returns kCorrupt if the sizes still
// add up to more than kMostTotalBytes.
Status bound_figures(Trace& trace, base::Diagnostics& diagnostics);

}  // namespace plimsoll::model
