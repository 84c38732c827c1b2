// Robust trends of a short series. Quadratic in its length: use short series only.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll::base {

// The share of pairs that rise minus the share of those that fall, -1 to 1. Equal pairs count as
// neither.
double kendall_tau(std::span<const std::int64_t> values);

// The median of the slopes between all pairs of values; value i is at position at[i], and `at`
// ascends.
double theil_sen_slope(std::span<const std::int64_t> values, std::span<const std::int64_t> at);

}  // namespace plimsoll::base
