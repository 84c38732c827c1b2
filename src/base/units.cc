#include "base/units.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace plimsoll::base {
namespace {

std::string with_unit(double value, const char* unit) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value, unit);
  return text.data();
}

}  // namespace

std::string format_bytes(std::int64_t bytes) {
  constexpr double kKib = 1024.0;
  const double size = std::fabs(static_cast<double>(bytes));
  const double value = static_cast<double>(bytes);
  if (size < kKib) return std::to_string(bytes) + " B";
  if (size < kKib * kKib) return with_unit(value / kKib, "KiB");
  if (size < kKib * kKib * kKib) return with_unit(value / (kKib * kKib), "MiB");
  if (size < kKib * kKib * kKib * kKib) return with_unit(value / (kKib * kKib * kKib), "GiB");
  return with_unit(value / (kKib * kKib * kKib * kKib), "TiB");
}

std::string format_count(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string counted(std::uint64_t count, const char* singular) {
  return format_count(count) + " " + singular + (count == 1 ? "" : "s");
}

std::string format_duration(std::int64_t duration_ns) {
  const double ns = static_cast<double>(duration_ns);
  const double size = std::fabs(ns);
  if (size < 1e3) return std::to_string(duration_ns) + " ns";
  if (size < 1e6) return with_unit(ns / 1e3, "us");
  if (size < 1e9) return with_unit(ns / 1e6, "ms");
  return with_unit(ns / 1e9, "s");
}

std::string format_percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f%%", share * 100.0);
  return text.data();
}

std::string format_utc(std::int64_t time_ns) {
  const std::time_t seconds = time_ns / 1'000'000'000;
  std::tm parts{};
  std::array<char, 40> text{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return {};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

}  // namespace plimsoll::base
