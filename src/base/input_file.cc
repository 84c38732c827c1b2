#include "base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace plimsoll::base {

InputFile open_input(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return nullptr;
  const int never_wait = S_ISREG(status.st_mode) ? O_NONBLOCK : 0;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | never_wait);
  if (descriptor < 0) return nullptr;
  InputFile file(::fdopen(descriptor, "rb"));
  if (file == nullptr) {
    const int error = errno;
    ::close(descriptor);
    errno = error;
  }
  return file;
}

std::optional<std::string> read_rest(std::FILE* file, std::size_t most_bytes) {
  std::string text;
  std::array<char, 1 << 16> part;
  std::size_t size = part.size();
  while (size == part.size() && text.size() <= most_bytes) {
    size = std::fread(part.data(), 1, part.size(), file);
    text.append(part.data(), size);
  }
  if (std::ferror(file) != 0) return std::nullopt;
  return text;
}

}  // namespace plimsoll::base
