// The place of this process in a distributed run, from the environment variables that launchers
// such as torchrun set. python/plimsoll/_process/paths.py has the same rule for the rank.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace plimsoll::base {

// Returns the number in an environment variable; nullopt unless it consists of one to nine digits.
inline std::optional<std::int64_t> number_in_environment(const char* variable) noexcept {
  const char* const value = std::getenv(variable);
  const std::string_view digits = value != nullptr ? value : "";
  if (digits.empty() || digits.size() > 9) return std::nullopt;
  std::int64_t number = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = 10 * number + (digit - '0');
  }
  return number;
}

inline std::optional<std::int64_t> launched_rank() noexcept {
  const auto rank = number_in_environment("RANK");
  return rank ? rank : number_in_environment("LOCAL_RANK");
}

// The number of processes in the run.
inline std::optional<std::int64_t> launched_world_size() noexcept {
  return number_in_environment("WORLD_SIZE");
}

}  // namespace plimsoll::base
