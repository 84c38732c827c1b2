// Texts for quantities and lookups in shares, for alerts and log summaries.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "plimsoll/memory_sample.h"
#include "sample/names.h"

namespace plimsoll::sample {

using base::bytes_text;

inline std::string number_text(double value, const char* format = "%.2f") {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

inline std::string percent_text(double percent) { return number_text(percent, "%.1f%%"); }

inline std::uint64_t bytes_of_name(const std::vector<MemoryShare>& shares,
                                   const std::string& name) {
  const auto found = std::ranges::find(shares, name, &MemoryShare::name);
  return found == shares.end() ? 0 : found->size_bytes;
}

// The share that grew most, and by how much.
inline std::optional<std::pair<std::string, std::uint64_t>> most_grown(
    const std::vector<MemoryShare>& before, const std::vector<MemoryShare>& now) {
  std::optional<std::pair<std::string, std::uint64_t>> most;
  for (const MemoryShare& share : now) {
    if (share.name.empty() || share.name == kRest) continue;
    const std::uint64_t was = bytes_of_name(before, share.name);
    if (share.size_bytes <= was) continue;
    const std::uint64_t grown = share.size_bytes - was;
    if (!most || grown > most->second) most.emplace(share.name, grown);
  }
  return most;
}

inline double share_percent(double part, double whole) {
  return whole > 0 ? 100.0 * part / whole : 0;
}

}  // namespace plimsoll::sample
