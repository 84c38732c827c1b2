#include "engine/rank_in_name.h"

#include <charconv>
#include <cstddef>
#include <string>
#include <system_error>

namespace plimsoll::engine {
namespace {

bool is_lower_letter(char c) { return c >= 'a' && c <= 'z'; }

}  // namespace

std::optional<std::int64_t> rank_in_name(std::string_view path) {
  std::string name(path.substr(path.rfind('/') + 1));
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  constexpr std::string_view kWord = "rank";
  for (std::size_t at = name.find(kWord); at != name.npos; at = name.find(kWord, at + 1)) {
    if (at > 0 && is_lower_letter(name[at - 1])) continue;  // "frank3"
    const char* begin = name.data() + at + kWord.size();
    const char* const end = name.data() + name.size();
    if (begin != end && (*begin == '_' || *begin == '-' || *begin == '=')) ++begin;
    std::int32_t rank = 0;
    const auto parsed = std::from_chars(begin, end, rank);
    if (parsed.ec == std::errc{} && rank >= 0) return rank;
  }
  return std::nullopt;
}

}  // namespace plimsoll::engine
