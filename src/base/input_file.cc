#include "base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

}  // namespace plimsoll::base
