#include "base/trend.h"

#include <algorithm>
#include <vector>

namespace plimsoll::base {

double kendall_tau(std::span<const std::int64_t> values) {
  if (values.size() < 2) return 0;
  std::int64_t balance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i + 1; j < values.size(); ++j) {
      balance += (values[j] > values[i] ? 1 : 0) - (values[j] < values[i] ? 1 : 0);
    }
  }
  const std::size_t pairs = values.size() * (values.size() - 1) / 2;
  return static_cast<double>(balance) / static_cast<double>(pairs);
}

double theil_sen_slope(std::span<const std::int64_t> values, std::span<const std::int64_t> at) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i + 1; j < values.size(); ++j) {
      slopes.push_back((static_cast<double>(values[j]) - static_cast<double>(values[i])) /
                       static_cast<double>(at[j] - at[i]));
    }
  }
  if (slopes.empty()) return 0;
  const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  if (slopes.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(slopes.begin(), middle)) / 2;
}

}  // namespace plimsoll::base
