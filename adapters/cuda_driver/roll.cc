#include "roll.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace plimsoll::cuda_driver {
namespace {

// Never destroyed: processes record until their last destructor.
std::string& roll_path() {
  static auto* const kPath = new std::string;
  return *kPath;
}
std::string& wanted_path() {
  static auto* const kPath = new std::string;
  return *kPath;
}

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The roll, open and locked by this process alone.
class Roll {
 public:
  Roll() {
    if (roll_path().empty()) return;
    file_ = open(roll_path().c_str(), O_RDWR | O_APPEND | O_CLOEXEC);
    while (file_ >= 0 && flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  Roll(const Roll&) = delete;
  Roll& operator=(const Roll&) = delete;
  ~Roll() {
    if (file_ >= 0) close(file_);
  }

  bool is_there() const { return file_ >= 0; }
  std::string read_all() const {
    std::string text;
    std::array<char, 4096> part;
    off_t at = 0;
    for (ssize_t size = 0; (size = pread(file_, part.data(), part.size(), at)) > 0; at += size) {
      text.append(part.data(), static_cast<std::size_t>(size));
    }
    return text;
  }
  void write_line(const std::string& word, const std::string& rest) const {
    std::string line = word;
    line += ' ';
    line += std::to_string(getpid());
    if (!rest.empty()) line += ' ';
    line += rest;
    line += '\n';
    if (file_ >= 0 && write(file_, line.data(), line.size()) < 0) return;  // then it is not told
  }

 private:
  int file_ = -1;
};

bool exists(const std::string& path) {
  struct stat told{};
  return stat(path.c_str(), &told) == 0;
}

}  // namespace

void sign_in() noexcept try {
  roll_path() = from_environment("PLIMSOLL_CUDA_ROLL");
  wanted_path() = from_environment("PLIMSOLL_CUDA_OUT");
  if (wanted_path().empty()) wanted_path() = "plimsoll-cuda.plim";
  const Roll roll;
  if (roll.is_there() && roll.read_all().empty()) roll.write_line("loaded", "");
} catch (...) {
  // Without memory for two paths nothing else will work either; the program goes on.
}

std::string claim_path() {
  const std::string& wanted = wanted_path();
  const Roll roll;
  const std::string written = roll.is_there() ? roll.read_all() : "";
  std::string path = wanted;
  if (!roll.is_there() || written.find("\nrecording ") != std::string::npos) {
    path += "." + std::to_string(getpid());
    // A process that became another program has recorded under this number before.
    const std::string base = path;
    const auto is_taken = [&] {
      if (!roll.is_there()) return exists(path);
      std::string end_of_line = path;
      end_of_line += '\n';
      return written.find(end_of_line) != std::string::npos;
    };
    for (int number = 2; is_taken(); ++number) path = base + "." + std::to_string(number);
  }
  roll.write_line("recording", path);
  return path;
}

void tell_failure(const char* sentence) {
  const Roll roll;
  roll.write_line("failed", sentence != nullptr ? sentence : "");
}

}  // namespace plimsoll::cuda_driver
