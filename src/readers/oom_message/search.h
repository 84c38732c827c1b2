// Small searches in text that the files of this reader share.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace plimsoll::readers::oom_message {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

inline std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

// The text after `phrase`; nullopt without it.
inline std::optional<std::string_view> after(std::string_view text, std::string_view phrase) {
  const std::size_t at = text.find(phrase);
  if (at == text.npos) return std::nullopt;
  return text.substr(at + phrase.size());
}

inline std::optional<std::int64_t> number_after(std::string_view text, std::string_view phrase) {
  const auto rest = after(text, phrase);
  if (!rest) return std::nullopt;
  std::int64_t value = 0;
  const auto parsed = std::from_chars(rest->data(), rest->data() + rest->size(), value);
  return parsed.ec == std::errc{} ? std::optional(value) : std::nullopt;
}

}  // namespace plimsoll::readers::oom_message
