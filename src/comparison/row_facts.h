// What one row of a difference shows by itself.
#pragma once

#include <cstdint>
#include <string>

#include "comparison/causes.h"

namespace plimsoll::comparison {

inline constexpr double kSameRatio = 0.005;  // ratios that differ by less are equal

inline double weight(const PairAtPoint& row) {
  return static_cast<double>(row.before_bytes()) + static_cast<double>(row.after_bytes());
}
inline bool is_in_one(const PairAtPoint& row) {
  return (row.before_bytes() == 0) != (row.after_bytes() == 0);
}
inline bool is_on_both(const PairAtPoint& row) {
  return row.before_bytes() > 0 && row.after_bytes() > 0;
}
inline double ratio(const PairAtPoint& row) {
  return static_cast<double>(row.after_bytes()) / static_cast<double>(row.before_bytes());
}
inline double largest_ratio(const PairAtPoint& row) {
  return static_cast<double>(row.after->largest_bytes) /
         static_cast<double>(row.before->largest_bytes);
}
bool is_near(double ratio, double other);
bool is_alike(double ratio, double other);  // roughly, as of a sequence and its shifted copy

// Whether the total, the size of the allocations or their count changed by the factor. A loop
// over a longer sequence changes the count.
bool is_scaled(const PairAtPoint& row, double factor);
// Whether each repetition of a parameter has another size than before.
bool is_resized_parameter(const PairAtPoint& row);
// The dtype of a parameter, gradient, buffer or optimizer state. For an activation, its element
// size: "16-bit activation". Empty if unknown.
std::string dtype_in(const report::DigestKey& key, const report::DigestRow& row);
// Whether the dtype differs between the two sides.
bool has_other_dtype(const PairAtPoint& row);
// Whether only the second recording updates all parameters together there.
bool is_now_foreach(const PairAtPoint& row);
// Whether one allocation is larger than all of the other recording at any time.
bool is_larger(const report::DigestRow* row, const report::DigestKey* other);

}  // namespace plimsoll::comparison
