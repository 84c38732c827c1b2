#include "live/live_status_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "live/live_status.h"
#include "probes/process_memory.h"

namespace plimsoll::live {
namespace {

Error folder_error(const std::string& folder, const std::string& what) {
  return make_error(ErrorCode::kPermission,
                    "cannot use " + folder + " for the live status of runs: " + what);
}

// Whether the process that created the file has ended. Unknown if its pid belongs to another
// namespace (a container's) or the file is not ours.
bool is_stale(const std::string& folder, int pid) {
  const int fd = open_live_status_file(folder, pid);
  if (fd < 0) return errno == ENOENT;  // another process has removed it
  LiveStatusHeader header;
  const LiveStatusHeader expected;
  const bool is_read = ::pread(fd, &header, sizeof(header), 0) == sizeof(header) &&
                       std::memcmp(header.magic, expected.magic, sizeof(header.magic)) == 0;
  ::close(fd);
  const auto start_ticks = probes::read_start_ticks(pid);
  if (!is_read) return !start_ticks;  // just created, or never filled
  if (header.pid_namespace != probes::own_pid_namespace()) return false;
  return start_ticks != header.start_ticks;
}

}  // namespace

// /run/user/UID is the usual XDG_RUNTIME_DIR; batch jobs often lack the variable.
std::vector<std::string> live_status_folders() {
  const char* only = std::getenv("PLIMSOLL_LIVE_FOLDER");
  if (only != nullptr && *only != '\0') return {only};
  const std::string user = std::to_string(::geteuid());
  std::vector<std::string> folders;
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') folders.push_back(runtime + std::string("/plimsoll"));
  const std::string usual = "/run/user/" + user;
  if (runtime == nullptr || runtime != usual) folders.push_back(usual + "/plimsoll");
  folders.push_back("/tmp/plimsoll-" + user);
  return folders;
}

// Checks every folder above it, after resolving links: only this user and root may be able to
// replace the folder. In a sticky folder, such as /tmp, other users cannot.
Status check_parents(const std::string& folder) {
  char* resolved = ::realpath(folder.c_str(), nullptr);
  if (resolved == nullptr) return folder_error(folder, std::strerror(errno));
  std::string parent = resolved;
  std::free(resolved);
  struct stat root{};  // in a user namespace its owner may appear as nobody
  if (::stat("/", &root) != 0) return folder_error("/", std::strerror(errno));
  while (parent.size() > 1) {
    parent.resize(std::max<std::size_t>(parent.rfind('/'), 1));
    struct stat state{};
    if (::stat(parent.c_str(), &state) != 0) return folder_error(parent, std::strerror(errno));
    if (state.st_uid != 0 && state.st_uid != root.st_uid && state.st_uid != ::geteuid()) {
      return folder_error(folder, parent + " belongs to another user");
    }
    const bool is_sticky = (state.st_mode & S_ISVTX) != 0;
    if ((state.st_mode & S_IWOTH) != 0 && !is_sticky) {
      return folder_error(folder, "others may write to " + parent);
    }
  }
  return {};
}

Status check_live_status_folder(const std::string& folder) {
  struct stat reported{};
  if (::lstat(folder.c_str(), &reported) != 0) return folder_error(folder, std::strerror(errno));
  if (!S_ISDIR(reported.st_mode)) return folder_error(folder, "it is not a folder");
  if (reported.st_uid != ::geteuid()) return folder_error(folder, "it belongs to another user");
  if ((reported.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return folder_error(folder, "others may write to it (chmod 700)");
  }
  return check_parents(folder);
}

Status make_live_status_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return folder_error(folder, std::strerror(errno));
  }
  return check_live_status_folder(folder);
}

int open_live_status_file(const std::string& folder, int pid) {
  const std::string path = folder + "/" + std::to_string(pid);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return -1;
  struct stat reported{};
  const bool is_ours = ::fstat(fd, &reported) == 0 && S_ISREG(reported.st_mode) &&
                       reported.st_uid == ::geteuid() &&
                       (reported.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (is_ours) return fd;
  ::close(fd);
  errno = EACCES;
  return -1;
}

std::vector<int> sweep_live_status_folder(const std::string& folder) {
  std::vector<int> found;
  if (!check_live_status_folder(folder)) return found;
  DIR* entries = ::opendir(folder.c_str());
  if (entries == nullptr) return found;
  while (const dirent* entry = ::readdir(entries)) {
    const std::string_view name = entry->d_name;
    int pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size() || pid <= 0) continue;
    if (is_stale(folder, pid)) {
      ::unlink((folder + "/" + std::to_string(pid)).c_str());
    } else {
      found.push_back(pid);
    }
  }
  ::closedir(entries);
  std::ranges::sort(found);
  return found;
}

}  // namespace plimsoll::live
