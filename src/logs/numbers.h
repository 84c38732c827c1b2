// Parses numbers and sizes in logs. Text that is not a number, or a size that no machine could
// have, is unknown.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::logs {

inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const std::size_t from = text.find_first_not_of(kBlank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(kBlank) - from + 1);
}

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

// The largest plausible size or count: sums over all lines of a log still fit into 63 bits.
inline constexpr std::uint64_t kMostInLogs = std::uint64_t{1} << 50;

// A count of objects in memory; nullopt for implausible counts.
inline std::optional<std::uint64_t> count_in(std::string_view text) {
  const auto count = number_in<std::uint64_t>(text);
  return count && *count <= kMostInLogs ? count : std::nullopt;
}

// The number of an iteration or a batch; the difference of two fits into 63 bits.
inline std::optional<std::int64_t> whole_number_in(std::string_view text) {
  constexpr auto kMost = static_cast<std::int64_t>(kMostInLogs);
  const auto number = number_in<std::int64_t>(text);
  return number && *number <= kMost && *number >= -kMost ? number : std::nullopt;
}

// Converts a number of units to bytes; nullopt for a negative size or one above a pebibyte.
inline std::optional<std::uint64_t> bytes_of(std::optional<double> count, double unit_bytes) {
  constexpr double kMost = static_cast<double>(kMostInLogs);
  if (!count || !(*count >= 0) || !(*count * unit_bytes <= kMost)) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(*count * unit_bytes));
}

// "8073.4 MB"
inline std::optional<std::uint64_t> mb_in(std::string_view text) {
  if (!text.ends_with(" MB")) return std::nullopt;
  text.remove_suffix(3);
  return bytes_of(number_in<double>(text), 1024.0 * 1024.0);
}

// "20.3%", as 20.3
inline std::optional<double> percent_in(std::string_view text) {
  if (!text.ends_with("%")) return std::nullopt;
  text.remove_suffix(1);
  const auto percent = number_in<double>(text);
  return percent && std::isfinite(*percent) ? percent : std::nullopt;
}

}  // namespace plimsoll::logs
