// The row of a table that sums its omitted groups: "[other: 4 groups]".
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace plimsoll::report {

inline constexpr std::string_view kRestPrefix = "[other: ";

// The key of the row.
inline std::string rest_key(std::uint64_t groups) {
  return std::string(kRestPrefix) + std::to_string(groups) + (groups == 1 ? " group]" : " groups]");
}

// The number of groups in the row with this key; nothing for the key of a group.
inline std::optional<std::uint64_t> groups_in_rest(std::string_view key) {
  if (!key.starts_with(kRestPrefix)) return std::nullopt;
  std::uint64_t groups = 0;
  const char* const begin = key.data() + kRestPrefix.size();
  const auto [end, error] = std::from_chars(begin, key.data() + key.size(), groups);
  if (error != std::errc{} || rest_key(groups) != key) return std::nullopt;
  return groups;
}

}  // namespace plimsoll::report
