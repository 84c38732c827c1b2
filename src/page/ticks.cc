#include "page/ticks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "base/units.h"

namespace plimsoll::page {
namespace {

// Formats without zeros at the end of the fraction: "1.25", "16".
std::string decimal(double value, int most_digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", most_digits, value);
  std::string out = text.data();
  if (out.find('.') == std::string::npos) return out;
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out;
}

// A multiple of a power of two has a short exact form in a unit of 1024.
std::string exact_bytes(double bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return decimal(bytes, 3) + " " + kUnits[unit];
}

// The smallest of 1, 2, 5, 10, 20, ... that is at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::vector<double> multiples(double first, double last, std::size_t most, double least_step) {
  std::vector<double> values;
  if (!std::isfinite(first) || !std::isfinite(last) || last < first || most == 0) return values;
  const double intervals = most == 1 ? 1 : static_cast<double>(most - 1);
  const double step = round_step(std::max((last - first) / intervals, least_step));
  for (double k = std::ceil(first / step - 1e-9); k * step <= last + step * 1e-9; ++k) {
    if (values.size() == most) break;
    values.push_back(k == 0 ? 0 : k * step);  // never -0
  }
  return values;
}

}  // namespace

std::vector<Tick> byte_ticks(double highest) {
  std::vector<Tick> ticks;
  if (!std::isfinite(highest) || highest < 1) return ticks;
  double step = 1;
  while (highest / step >= 6) step *= 2;
  const int count = static_cast<int>(highest / step);  // below 6
  for (int number = 1; number <= count; ++number) {
    const double value = step * number;
    ticks.push_back({value, exact_bytes(value)});
  }
  return ticks;
}

std::vector<Tick> count_ticks(double first, double last, std::size_t most) {
  std::vector<Tick> ticks;
  for (const double value : multiples(first, last, most, 1)) {
    const bool is_negative = value < 0;
    ticks.push_back({value, (is_negative ? "-" : "") +
                                base::format_count(
                                    static_cast<std::uint64_t>(std::llround(std::fabs(value))))});
  }
  return ticks;
}

std::vector<Tick> time_ticks(double first_ns, double last_ns, std::size_t most) {
  struct Unit {
    double ns;
    const char* name;
  };
  constexpr std::array<Unit, 4> kUnits = {{{1e9, "s"}, {1e6, "ms"}, {1e3, "\xC2\xB5s"}, {1, "ns"}}};
  std::vector<Tick> ticks;
  const double largest = std::max(std::fabs(first_ns), std::fabs(last_ns));
  const auto unit = std::ranges::find_if(kUnits, [&](const Unit& u) { return largest >= u.ns; });
  const Unit chosen = unit == kUnits.end() ? kUnits.back() : *unit;
  for (const double value : multiples(first_ns, last_ns, most, 1)) {
    ticks.push_back({value, decimal(value / chosen.ns, 9) + " " + chosen.name});
  }
  return ticks;
}

}  // namespace plimsoll::page
