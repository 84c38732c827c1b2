#include "registry.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "plimsoll/quiet_writing_c.h"

namespace plimsoll::cuda_driver {
namespace {

// Never destroyed: processes record until their last destructor.
std::string& list_path() {
  static auto* const kPath = new std::string;
  return *kPath;
}
std::string& out_path() {
  static auto* const kPath = new std::string;
  return *kPath;
}

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The process list, opened and locked by this process alone.
class ProcessList {
 public:
  ProcessList() {
    if (list_path().empty()) return;
    file_ = open(list_path().c_str(), O_RDWR | O_APPEND | O_CLOEXEC);
    while (file_ >= 0 && flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ProcessList(const ProcessList&) = delete;
  ProcessList& operator=(const ProcessList&) = delete;
  ~ProcessList() {
    if (file_ >= 0) close(file_);
  }

  bool is_there() const { return file_ >= 0; }
  bool is_empty() const {
    struct stat reported{};
    return fstat(file_, &reported) == 0 && reported.st_size == 0;
  }
  void write_line(const std::string& word, const std::string& rest) const {
    std::string line = word;
    line += ' ';
    line += std::to_string(getpid());
    if (!rest.empty()) line += ' ';
    line += rest;
    line += '\n';
    if (file_ < 0) return;
    const int state = plimsoll_begin_quiet_writing();
    [[maybe_unused]] const ssize_t count = write(file_, line.data(), line.size());
    plimsoll_end_quiet_writing(state);  // what could not be written is not reported
  }

 private:
  int file_ = -1;
};

}  // namespace

void announce_process() noexcept try {
  list_path() = from_environment("PLIMSOLL_CUDA_PROCESSES");
  out_path() = from_environment("PLIMSOLL_CUDA_OUT");
  if (out_path().empty()) out_path() = "plimsoll-cuda.plim";
  const ProcessList list;
  if (list.is_there() && list.is_empty()) list.write_line("loaded", "");
} catch (...) {
  // If there is no memory for two paths, the program continues unrecorded.
}

std::string wanted_path() {
  return list_path().empty() ? out_path() + "." + std::to_string(getpid()) : out_path();
}

void report_recording(const char* path) {
  const ProcessList list;
  list.write_line("recording", path);
}

void report_failure(const char* sentence) {
  const ProcessList list;
  list.write_line("failed", sentence != nullptr ? sentence : "");
}

}  // namespace plimsoll::cuda_driver
