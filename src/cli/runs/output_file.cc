#include "cli/runs/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/output_file.h"

namespace plimsoll::cli {
namespace {

Error cannot_write(const std::string& path, int why) {
  // A failure to write is never an error in the input, whatever the system's reason.
  return make_error(ErrorCode::kInternal, path + ": cannot write: " + std::strerror(why));
}

// The target of a symbolic link: the file is replaced and the link stays.
std::string resolved(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string out = real;
  std::free(real);
  return out;
}

}  // namespace

Status check_not_an_input(const std::string& output, const std::vector<std::string>& inputs,
                          const char* option) {
  struct stat written{};
  if (output == "-" || ::stat(output.c_str(), &written) != 0) return {};
  for (const std::string& input : inputs) {
    struct stat read{};
    if (::stat(input.c_str(), &read) != 0) continue;
    if (read.st_dev != written.st_dev || read.st_ino != written.st_ino) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      output + " is the recording itself; give another name with " + option);
  }
  return {};
}

Result<OutputFile> OutputFile::create(const std::string& path, Existing existing,
                                      const char* option, Readable readable) {
  if (path == "-") return OutputFile("standard output", "", stdout);
  struct stat info{};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    return make_error(ErrorCode::kInvalidArgument,
                      path + " is a folder; give a file name with " + option);
  }
  if (exists && !S_ISREG(info.st_mode)) {
    const int descriptor = base::open_existing(path.c_str());
    if (descriptor < 0 && errno == ENXIO && S_ISFIFO(info.st_mode)) {
      return make_error(ErrorCode::kInvalidArgument, path + " is a pipe without a reader");
    }
    if (descriptor < 0) return cannot_write(path, errno);
    return OutputFile(path, "", ::fdopen(descriptor, "wb"));
  }
  if (!exists && ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    return make_error(ErrorCode::kInvalidArgument,
                      path +
                          " is a symbolic link that leads to no file; remove it, or give another "
                          "name with " +
                          option);
  }
  if (exists && existing == Existing::kRefuse) {
    return make_error(
        ErrorCode::kInvalidArgument,
        path + " exists; replace it with --force, or name another file with " + option);
  }
  const std::string place = exists ? resolved(path) : path;
  const std::string temporary = place + ".plimsoll-" + std::to_string(::getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                                readable == Readable::kByOwner ? 0600 : 0666);
  if (descriptor < 0) return cannot_write(path, errno);
  return OutputFile(place, temporary, ::fdopen(descriptor, "wb"));
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      file_(std::exchange(other.file_, nullptr)),
      size_bytes_(other.size_bytes_),
      errno_(other.errno_) {}

OutputFile::~OutputFile() {
  if (file_ == nullptr || file_ == stdout) return;
  std::fclose(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

bool OutputFile::write(std::string_view bytes) {
  if (errno_ != 0) return false;
  errno = 0;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size()) {
    size_bytes_ += bytes.size();
    return true;
  }
  errno_ = errno == 0 ? EIO : errno;
  return false;
}

bool OutputFile::reader_has_gone() const { return errno_ == EPIPE; }

Status OutputFile::finish() {
  std::FILE* file = std::exchange(file_, nullptr);
  errno = 0;
  const int closed = file == stdout ? std::fflush(file) : std::fclose(file);
  if (closed != 0 && errno_ == 0) errno_ = errno == 0 ? EIO : errno;
  if (errno_ == 0 && !temporary_.empty() && ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    errno_ = errno;
  }
  if (errno_ == 0) return {};
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  return cannot_write(path_, errno_);
}

}  // namespace plimsoll::cli
