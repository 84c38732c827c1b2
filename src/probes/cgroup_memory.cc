#include "probes/cgroup_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "probes/system_files.h"

namespace plimsoll::probes {
namespace {

// v1 reports "no limit" as the largest number of whole pages.
constexpr std::uint64_t kNoLimitV1 = std::uint64_t{1} << 62;

struct Membership {
  std::string path;
  int version = 2;
};

// From /proc/PID/cgroup: "0::/user.slice/a" (v2) or "4:memory:/docker/b" (v1).
std::vector<Membership> memberships(std::string_view text) {
  std::vector<Membership> found;
  for_each_line(text, [&](std::string_view line) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) return;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (controllers.empty()) found.push_back({path, 2});
    // A comma-separated list; no other controller's name contains this one.
    if (controllers.find("memory") != std::string_view::npos) found.push_back({path, 1});
  });
  return found;
}

std::string join(const std::string& folder, std::string_view path) {
  return path == "/" ? folder : folder + std::string(path);
}

const char* limit_file(int version) {
  return version == 2 ? "/memory.max" : "/memory.limit_in_bytes";
}
const char* current_file(int version) {
  return version == 2 ? "/memory.current" : "/memory.usage_in_bytes";
}

std::optional<std::uint64_t> read_limit(const std::string& folder, int version) {
  const auto limit = read_number(folder + limit_file(version));  // "max" is not a number
  if (limit && version == 1 && *limit >= kNoLimitV1) return std::nullopt;
  return limit;
}

bool has_memory_files(const std::string& folder, int version) {
  return ::access((folder + current_file(version)).c_str(), R_OK) == 0;
}

// The parent group: "/a/b" -> "/a" -> "/".
std::string parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

// Returns the group of `path`, or the ancestor with the least free memory. A container that sees
// only its own part of the tree may get a path that does not exist in it: its group is then the
// root of the mount.
std::optional<CgroupLimit> tightest(const std::string& mount, const Membership& member) {
  std::optional<CgroupLimit> found;
  std::uint64_t least_room = UINT64_MAX;
  for (std::string path = member.path;; path = parent(path)) {
    const std::string folder = join(mount, path);
    if (has_memory_files(folder, member.version)) {
      const auto limit = read_limit(folder, member.version);
      const auto current = read_number(folder + current_file(member.version)).value_or(0);
      const std::uint64_t room =
          limit ? *limit - std::min(*limit, current) : UINT64_MAX;  // no limit: unbounded
      if (!found || room < least_room) {
        found = CgroupLimit{path, folder, member.version, limit};
        least_room = room;
      }
    }
    if (path == "/" || path.empty()) return found;
  }
}

std::vector<std::string> mounts(const std::string& root, int version) {
  const std::string top = root + "/sys/fs/cgroup";
  if (version == 1) return {top + "/memory"};
  return {top, top + "/unified"};
}

double percent_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return 0;
  const std::string number(line.substr(at + key.size(), 16));
  return std::strtod(number.c_str(), nullptr);
}

std::uint64_t total_after(std::string_view line) {
  const std::size_t at = line.find("total=");
  return at == std::string_view::npos ? 0 : to_number(line.substr(at + 6)).value_or(0);
}

}  // namespace

std::optional<std::uint64_t> CgroupMemory::used_bytes() const {
  if (!current_bytes) return std::nullopt;
  return *current_bytes - std::min(*current_bytes, inactive_file_bytes.value_or(0));
}

std::optional<CgroupLimit> find_cgroup_limit(const std::string& root, const std::string& pid) {
  const auto text = read_system_file(root + "/proc/" + pid + "/cgroup");
  if (!text) return std::nullopt;
  std::optional<CgroupLimit> unlimited;
  for (const Membership& member : memberships(*text)) {
    for (const std::string& mount : mounts(root, member.version)) {
      auto found = tightest(mount, member);
      if (found && found->limit_bytes) return found;
      if (found && !unlimited) unlimited = std::move(found);
    }
  }
  return unlimited;
}

std::optional<std::uint64_t> read_cgroup_current(const CgroupLimit& group) {
  return read_number(group.folder + current_file(group.version));
}

std::optional<std::uint64_t> read_cgroup_inactive_file(const CgroupLimit& group) {
  const auto text = read_system_file(group.folder + "/memory.stat");
  if (!text) return std::nullopt;
  return number_after(*text, group.version == 2 ? "inactive_file" : "total_inactive_file");
}

std::optional<CgroupMemory> read_cgroup_memory(const std::string& root, const std::string& pid) {
  const auto group = find_cgroup_limit(root, pid);
  if (!group) return std::nullopt;
  CgroupMemory reported;
  reported.path = group->path;
  reported.version = group->version;
  reported.limit_bytes = group->limit_bytes;
  reported.current_bytes = read_cgroup_current(*group);
  reported.inactive_file_bytes = read_cgroup_inactive_file(*group);
  if (group->version == 2) {
    const auto events = read_system_file(group->folder + "/memory.events").value_or("");
    reported.oom_kills = number_after(events, "oom_kill");
    reported.limit_hits = number_after(events, "max");
    reported.pressure = read_memory_pressure(group->folder + "/memory.pressure");
  } else {
    const auto control = read_system_file(group->folder + "/memory.oom_control").value_or("");
    reported.oom_kills = number_after(control, "oom_kill");
    reported.limit_hits = read_number(group->folder + "/memory.failcnt");
  }
  return reported;
}

std::optional<MemoryPressure> read_memory_pressure(const std::string& path) {
  const auto text = read_system_file(path);
  if (!text || !text->starts_with("some")) return std::nullopt;
  MemoryPressure reported;
  for_each_line(*text, [&](std::string_view line) {
    if (line.starts_with("some")) {
      reported.some_percent_10s = percent_after(line, "avg10=");
      reported.some_percent_60s = percent_after(line, "avg60=");
      reported.some_total_us = total_after(line);
    } else if (line.starts_with("full")) {
      reported.full_percent_10s = percent_after(line, "avg10=");
      reported.full_percent_60s = percent_after(line, "avg60=");
      reported.full_total_us = total_after(line);
    }
  });
  return reported;
}

}  // namespace plimsoll::probes
