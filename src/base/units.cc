#include "base/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <system_error>
#include <utility>

namespace plimsoll::base {
namespace {

std::string with_unit(double value, const char* unit) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value, unit);
  return text.data();
}

// Ignores the case of ASCII letters.
bool is_same_word(std::string_view one, std::string_view other) {
  const auto lower = [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  };
  return std::ranges::equal(one, other, {}, lower, lower);
}

}  // namespace

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB"};
  constexpr double kKib = 1024.0;
  constexpr double kRoundsUp = 1023.95;  // to 1024.0, which is 1.0 of the next unit
  double value = static_cast<double>(bytes);
  if (std::fabs(value) < kKib) return std::to_string(bytes) + " B";
  value /= kKib;
  std::size_t unit = 0;
  for (; std::fabs(value) >= kRoundsUp && unit + 1 < kUnits.size(); ++unit) value /= kKib;
  return with_unit(value, kUnits[unit]);
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return bytes_text(static_cast<std::int64_t>(std::min(bytes, kMost)));
}

std::string bytes_text(double bytes) {
  constexpr auto kMost = static_cast<double>(std::numeric_limits<std::int64_t>::max());
  if (std::fabs(bytes) < kMost) return bytes_text(std::int64_t{std::llround(bytes)});
  return bytes_text(bytes < 0 ? std::numeric_limits<std::int64_t>::min()
                              : std::numeric_limits<std::int64_t>::max());
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
  constexpr double kRoundsToZero = 0.0005;
  if (std::fabs(share) < kRoundsToZero) share = 0;  // never "-0.0%"
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

namespace {

struct ParsedSize {
  std::optional<std::int64_t> bytes;
  bool is_too_large = false;
};

ParsedSize parsed_size(std::string_view text) {
  constexpr std::size_t kMostDecimals = 6;  // 10^6 * 2^40 fits into 64 bits
  constexpr std::array kUnits = {std::pair("KiB", 10), std::pair("KB", 10),  std::pair("MiB", 20),
                                 std::pair("MB", 20),  std::pair("GiB", 30), std::pair("GB", 30),
                                 std::pair("TiB", 40), std::pair("TB", 40),  std::pair("B", 0),
                                 std::pair("", 0)};
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  const char* const begin = text.data();
  const char* const last = begin + text.size();
  std::int64_t whole = 0;
  auto [at, error] = std::from_chars(begin, last, whole);
  const bool is_out_of_range = error == std::errc::result_out_of_range;
  if (text.starts_with('.') || is_out_of_range) error = {};  // ".5 MiB"
  if (error != std::errc{} || text.starts_with('-')) return {};
  std::int64_t decimals = 0;
  std::int64_t scale = 1;
  if (at != last && *at == '.') {
    const auto [end, bad] = std::from_chars(at + 1, last, decimals);
    const auto digits = static_cast<std::size_t>(end - at - 1);
    if (bad != std::errc{} || at[1] == '-' || digits > kMostDecimals) return {};
    for (std::size_t i = 0; i < digits; ++i) scale *= 10;
    at = end;
  }
  while (at != last && *at == ' ') ++at;
  for (const auto& [name, shift] : kUnits) {
    if (!is_same_word(std::string_view(at, last), name)) continue;
    if (scale > 1 && shift == 0) return {};  // a fraction of a byte
    const std::int64_t most = (std::numeric_limits<std::int64_t>::max() >> shift) - 1;
    if (is_out_of_range || whole > most) return {.bytes = {}, .is_too_large = true};
    return {.bytes = (whole << shift) + ((decimals << shift) / scale)};
  }
  return {};
}

}  // namespace

std::optional<std::int64_t> parse_bytes(std::string_view text) { return parsed_size(text).bytes; }

bool is_too_large(std::string_view text) { return parsed_size(text).is_too_large; }

std::string size_error(std::string_view text) {
  return is_too_large(text) ? std::string("is too large; the largest size is ") + kLargestSize
                            : "is not a size; write bytes, or a number with KiB, MiB, GiB or TiB";
}

}  // namespace plimsoll::base
