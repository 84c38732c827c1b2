#include "engine/digest_input.h"

#include <cstdio>
#include <utility>

#include "base/input_file.h"
#include "comparison/digest_file.h"

namespace plimsoll::engine {
namespace {

constexpr std::size_t kMostDigestBytes = std::size_t{64} << 20;

// The text of the file; nullopt if it is not a digest or cannot be opened.
Result<std::optional<std::string>> digest_text(const std::string& path) {
  const base::InputFile file = base::open_input(path);
  std::string text;
  if (file == nullptr) return std::optional<std::string>();
  char buffer[65536];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, file.get())) {
    text.append(buffer, got);
    if (!comparison::is_digest(text)) return std::optional<std::string>();
    if (text.size() > kMostDigestBytes) {
      return make_error(ErrorCode::kLimit, path + ": a digest of more than 64 MiB");
    }
  }
  if (text.empty()) return std::optional<std::string>();
  return std::optional(std::move(text));
}

}  // namespace

Result<std::optional<report::Digest>> read_digest(const std::string& path) {
  PLIMSOLL_TRY_ASSIGN(const auto text, digest_text(path));
  if (!text) return std::optional<report::Digest>();
  PLIMSOLL_TRY_ASSIGN(report::Digest digest, comparison::parse_digest(*text, path));
  return std::optional(std::move(digest));
}

}  // namespace plimsoll::engine
