// Bounds the figures of a trace, so that no sum or difference of them leaves 64 bits, signed or
// not. A file may name any number; passes and exporters only ever add what has been bounded here.
#pragma once

#include <cstdint>

#include "base/diagnostics.h"
#include "model/trace.h"
#include "plimsoll/result.h"

namespace plimsoll::model {

inline constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;         // of anything: 1 PiB
inline constexpr std::uint64_t kMostRequestBytes = std::uint64_t{1} << 60;  // that could not be met
inline constexpr std::uint64_t kMostTotalBytes = std::uint64_t{1} << 61;    // of the whole trace
inline constexpr std::int64_t kLatestNs = (std::int64_t{1} << 62) - 1;      // the year 2116

// Lowers what is above a bound to it, and counts that. kCorrupt where even so the sizes add up to
// more than kMostTotalBytes.
Status bound_figures(Trace& trace, base::Diagnostics& diagnostics);

}  // namespace plimsoll::model
