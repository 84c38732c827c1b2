#include "record/output/file_sink.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <new>
#include <string_view>
#include <utility>

#include "format/block.h"

namespace plimsoll::record {
namespace {

constexpr int kMostNumbers = 9999;
constexpr int kMostTries = 8;  // other processes may create and remove files with this name in
                               // between

// run.plim, run.2.plim, run.3.plim
std::string numbered(const std::string& path, int number) {
  if (number == 1) return path;
  constexpr std::string_view kEnding = ".plim";
  const bool has_ending = path.size() > kEnding.size() && path.ends_with(kEnding);
  const std::size_t stem = path.size() - (has_ending ? kEnding.size() : 0);
  return path.substr(0, stem) + "." + std::to_string(number) + path.substr(stem);
}

std::string absolute(const std::string& path) {
  std::error_code error;
  const std::string whole = std::filesystem::absolute(path, error).string();
  return error ? path : whole;
}

// Whether another process has locked the file. Any other error means that the file system does not
// support locks.
bool is_taken(int lock_error) { return lock_error == EWOULDBLOCK; }

// Whether an unnamed file can be given its name, which needs this folder.
bool can_publish() { return access("/proc/self/fd", X_OK) == 0; }

bool make_folder_of(const std::string& path) {
  std::error_code error;
  return std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
}

bool holds_trace(base::OutputFile& file) {
  std::array<std::byte, format::kMagic.size()> head{};
  return file.read_head(head) == head.size() && format::has_magic(head);
}

}  // namespace

int FileSink::open(const std::string& wanted, Earlier earlier) {
  for (int number = 1; number <= kMostNumbers; ++number) {
    aim_at(wanted, number);
    const int error = take(number == 1 ? earlier : Earlier::kKeep);
    if (error == 0) return 0;
    file_.close();
    if (error != EEXIST) return error;
  }
  return EEXIST;
}

int FileSink::open_unnamed(const std::string& wanted) {
  aim_at(wanted, 1);
  const std::string folder = std::filesystem::path(place_).parent_path().string();
  is_unnamed_ = can_publish() && file_.create_unnamed(folder.c_str()) == 0;
  if (!is_unnamed_) return open(wanted, Earlier::kKeep);
  file_.lock();
  return 0;
}

int FileSink::publish() {
  const std::string wanted = path_;
  for (int number = 1; number <= kMostNumbers; ++number) {
    aim_at(wanted, number);
    const int error = file_.publish(place_.c_str());
    if (error == EEXIST) continue;
    is_made_ = error == 0;
    return error;
  }
  return EEXIST;
}

void FileSink::aim_at(const std::string& wanted, int number) {
  path_ = numbered(wanted, number);
  place_ = absolute(path_);
}

// Returns EEXIST if the name is taken.
int FileSink::take(Earlier earlier) {
  for (int i = 0; i < kMostTries; ++i) {
    int error = file_.create(place_.c_str());
    if (error == ENOENT && make_folder_of(place_)) error = file_.create(place_.c_str());
    // Another process may have found the file empty and locked it between the two calls; it may
    // also have ended since.
    if (error == 0) {
      is_made_ = !is_taken(file_.lock()) && file_.size_bytes() == 0;
      return is_made_ ? 0 : EEXIST;
    }
    if (error != EEXIST) return error;
    error = take_existing(earlier);
    if (error != ENOENT) return error;
  }
  return EEXIST;
}

// Returns ENOENT if the name has become free.
int FileSink::take_existing(Earlier earlier) {
  struct stat status{};
  if (lstat(place_.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  if (!S_ISREG(status.st_mode)) {
    // A link takes the name, even if it is dangling. Under /dev, a numbered name makes no sense.
    if (S_ISLNK(status.st_mode) && (stat(place_.c_str(), &status) != 0 || S_ISREG(status.st_mode)))
      return place_.starts_with("/dev/") ? ELOOP : EEXIST;
    return file_.open(place_.c_str());
  }
  if (status.st_size > 0 && earlier == Earlier::kKeep) return EEXIST;
  const int error = file_.open_unlinked(place_.c_str());
  if (error != 0) return error == ENOENT ? ENOENT : EEXIST;
  const int lock_error = file_.lock();
  if (is_taken(lock_error)) return EEXIST;
  if (!file_.is_at(place_.c_str())) return ENOENT;  // it has been replaced
  // If an empty file cannot be locked, another process may just have created it.
  if (file_.size_bytes() == 0) return lock_error == 0 ? 0 : EEXIST;
  if (earlier == Earlier::kKeep || !holds_trace(file_)) return EEXIST;
  return unlink(place_.c_str()) == 0 ? ENOENT : EEXIST;  // processes that have it open can still
                                                         // read it
}

void FileSink::remove() noexcept {
  if (is_made_ && file_.is_at(place_.c_str())) unlink(place_.c_str());
  file_.close();
}

void FileSink::abandon() noexcept {
  file_.close();
  replacement_.close();
  ::new (static_cast<void*>(&since_)) std::vector<std::byte>;  // the writer may have been using it
                                                               // at the fork
}

int FileSink::close() noexcept {
  drop_replacement();
  file_.unlock();
  return file_.close();
}

int FileSink::append(std::span<const std::byte> bytes) noexcept try {
  if (replacement_.is_open()) since_.insert(since_.end(), bytes.begin(), bytes.end());
  const int error = file_.write(bytes);
  if (error != 0 || !is_unnamed_) return error;
  is_unnamed_ = false;
  return publish();
} catch (...) {
  return ENOMEM;
}

int FileSink::begin_replacement() noexcept try {
  since_.clear();
  std::uint64_t random = 0;  // others must not be able to take the name first
  if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0) random = 0;
  temporary_ = place_ + ".tmp." + std::to_string(getpid()) + "." + std::to_string(random);
  const std::string folder = std::filesystem::path(place_).parent_path().string();
  // Stays unnamed until it is complete, so that a killed program leaves no partial file.
  int error = can_publish() ? replacement_.create_unnamed(folder.c_str()) : EOPNOTSUPP;
  if (error != 0) error = replacement_.create(temporary_.c_str());
  if (error == 0) replacement_.lock();
  return error;
} catch (...) {
  return ENOMEM;
}

int FileSink::end_replacement() noexcept try {
  if (!file_.is_at(place_.c_str())) {
    drop_replacement();  // the file was renamed or removed, and its name is now another file's
    return ECANCELED;
  }
  int error = replacement_.write(since_);
  if (error == 0 && !replacement_.is_at(temporary_.c_str())) {
    error = replacement_.publish(temporary_.c_str());
  }
  if (error == 0 && std::rename(temporary_.c_str(), place_.c_str()) != 0) error = errno;
  if (error != 0) {
    drop_replacement();
    return error;
  }
  file_ = std::move(replacement_);
  since_.clear();
  return 0;
} catch (...) {
  return ENOMEM;
}

void FileSink::drop_replacement() noexcept {
  if (!replacement_.is_open()) return;
  if (replacement_.is_at(temporary_.c_str())) unlink(temporary_.c_str());
  replacement_.close();
  since_.clear();
}

}  // namespace plimsoll::record
