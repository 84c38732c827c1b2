// Ticks of axes: where to draw lines and labels.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll::page {

struct Tick {
  double value = 0;
  std::string label;
};

// Above 0 and at most `highest`: multiples of a power of two, three to five of them, with exact
// labels ("256 MiB", "1.25 GiB"). None if `highest` is below 1.
std::vector<Tick> byte_ticks(double highest);

// Multiples of 1, 2 or 5 times a power of ten in [first, last], at most `most`; at least one apart.
std::vector<Tick> count_ticks(double first, double last, std::size_t most);  // "12,000"
// The same of nanoseconds: "1.5 s", "20 ms", all in one unit.
std::vector<Tick> time_ticks(double first_ns, double last_ns, std::size_t most);

}  // namespace plimsoll::page
