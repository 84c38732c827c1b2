// Robust trends of a short series. Quadratic in its length: keep it short.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll::base {

// Share of pairs that rise minus share of those that fall, -1 to 1. Pairs that stay equal count for
// neither.
double kendall_tau(std::span<const std::int64_t> values);

// The median of the slopes between all pairs of values; value i stands at at[i], which ascends.
double theil_sen_slope(std::span<const std::int64_t> values, std::span<const std::int64_t> at);

}  // namespace plimsoll::base
