#include "base/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/file_identity.h"
#include "base/utf8.h"

namespace plimsoll::base {
namespace {

constexpr std::int64_t kMostSourceBytes = 4 << 20;

std::int64_t changed_ns(const struct stat& is) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  constexpr std::int64_t kMostSeconds = std::numeric_limits<std::int64_t>::max() / kSecond - 1;
  return std::clamp<std::int64_t>(is.st_mtim.tv_sec, 0, kMostSeconds) * kSecond +
         is.st_mtim.tv_nsec;
}

class OpenSource {
 public:
  // O_NONBLOCK: opening a FIFO must not wait for its other end.
  explicit OpenSource(const std::string& path)
      : file_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)),
        identity_(FileIdentity::of(file_)) {}
  OpenSource(const OpenSource&) = delete;
  OpenSource& operator=(const OpenSource&) = delete;
  // The recorder reads sources on a thread of its own.
  ~OpenSource() { close_if_unchanged(file_, identity_); }

  std::optional<std::string> text_of_before(std::int64_t time_ns) const {
    struct stat is{};
    if (::fstat(file_, &is) != 0 || !S_ISREG(is.st_mode)) return std::nullopt;
    if (FileIdentity(is) != identity_) return std::nullopt;
    if (is.st_size > kMostSourceBytes || changed_ns(is) >= time_ns) return std::nullopt;
    std::string text(static_cast<std::size_t>(is.st_size), '\0');
    std::size_t size = 0;
    while (size < text.size()) {
      const ssize_t got =
          ::pread(file_, text.data() + size, text.size() - size, static_cast<off_t>(size));
      if (got <= 0) break;
      size += static_cast<std::size_t>(got);
    }
    text.resize(size);
    return text;
  }

 private:
  int file_;
  FileIdentity identity_;
};

}  // namespace

std::optional<std::string> read_source(const std::string& path, std::int64_t before_ns) {
  const bool is_source = path.starts_with('/') && path.ends_with(".py");
  if (!is_source || path.find('\0') != std::string::npos) return std::nullopt;
  return OpenSource(path).text_of_before(before_ns);
}

std::vector<std::string_view> lines_in(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string visible_line(std::string_view line) {
  std::string text;
  while (!line.empty()) {
    const std::size_t size = utf8_sequence_length(line);
    if (size == 0) return {};
    const std::string_view character = line.substr(0, size);
    line.remove_prefix(size);
    if (character == "\t") {
      text += ' ';
    } else if (!is_unprintable(code_point(character))) {
      text += character;
    }
  }
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

}  // namespace plimsoll::base
