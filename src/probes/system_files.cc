#include "probes/system_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "base/file_identity.h"

namespace plimsoll::probes {
namespace {

constexpr std::size_t kMostBytes = 64 << 10;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view without_leading_space(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

// Consumes the number at the front of `text`.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  text = without_leading_space(text);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::optional<std::string> read_system_file(const std::string& path) {
  // The path must not be a pipe or a terminal: never block.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return std::nullopt;
  const base::FileIdentity identity = base::FileIdentity::of(fd);
  std::string text;
  std::array<char, 4096> part;
  ssize_t size = 0;
  // The kernel produces these texts in one piece, so a short read means the end.
  do {
    // At an offset: takes nothing from a pipe of the program that has this number in the meantime.
    size = ::pread(fd, part.data(), part.size(), static_cast<off_t>(text.size()));
    if (size > 0) text.append(part.data(), static_cast<std::size_t>(size));
  } while (size == static_cast<ssize_t>(part.size()) && text.size() < kMostBytes);
  const bool is_whole = base::FileIdentity::of(fd) == identity;
  base::close_if_unchanged(fd, identity);
  if (!is_whole || (size < 0 && text.empty())) return std::nullopt;
  return text;
}

std::vector<std::string> list_system_folder(const std::string& path) {
  std::vector<std::string> names;
  DIR* const folder = ::opendir(path.c_str());
  if (folder == nullptr) return names;
  const base::FileIdentity identity = base::FileIdentity::of(::dirfd(folder));
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  // If the program closed it, closedir() would close one of the program's files: rather leak this.
  if (base::FileIdentity::of(::dirfd(folder)) == identity) ::closedir(folder);
  return names;
}

std::optional<std::uint64_t> to_number(std::string_view text) {
  const auto number = take_number(text);
  return without_leading_space(text).empty() ? number : std::nullopt;
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  const auto text = read_system_file(path);
  return text ? to_number(*text) : std::nullopt;
}

std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    std::string_view rest = text.substr(at + key.size());
    const bool begins_line = at == 0 || text[at - 1] == '\n';
    const bool is_whole = key.ends_with(':') || (!rest.empty() && is_space(rest.front()));
    if (begins_line && is_whole) return take_number(rest);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> bytes_after(std::string_view text, std::string_view key) {
  const auto kib = number_after(text, key);
  if (!kib || *kib > UINT64_MAX / 1024) return std::nullopt;
  return *kib * 1024;
}

}  // namespace plimsoll::probes
