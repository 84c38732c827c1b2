// Ticks of axes: the positions of grid lines, and their labels.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll::page {

struct Tick {
  double value = 0;
  std::string label;
};

// Three to five ticks above 0 and up to `highest`, at multiples of a power of two, with exact
// labels
// ("256 MiB", "1.25 GiB"). None if `highest` is below 1.
std::vector<Tick> byte_ticks(double highest);

// At most `most` ticks in [first, last], at multiples of 1, 2, 5, 10, 20, ... (never fractions).
std::vector<Tick> count_ticks(double first, double last, std::size_t most);  // "12,000"
// The same for nanoseconds, with all labels in one unit: "1.5 s", "20 ms".
std::vector<Tick> time_ticks(double first_ns, double last_ns, std::size_t most);

}  // namespace plimsoll::page
