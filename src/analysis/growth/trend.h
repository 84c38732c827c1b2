// Robust trends of a short series. Quadratic in its length: keep it short.
#pragma once

#include <cstdint>
#include <span>

#include "analysis/growth/boundaries.h"

namespace plimsoll::analysis::growth {

// Share of pairs that rise minus share of those that fall, -1 to 1. Pairs that stay equal count for
// neither.
double kendall_tau(std::span<const std::int64_t> values);

// The median of the slopes between all pairs, per step.
double theil_sen_slope(std::span<const std::int64_t> values, std::span<const Boundary> at);

}  // namespace plimsoll::analysis::growth
