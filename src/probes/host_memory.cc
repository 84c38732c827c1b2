#include "probes/host_memory.h"

#include <dlfcn.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/per_thread.h"
#include "probes/system_files.h"

namespace plimsoll::probes {
namespace {

constexpr std::int64_t kKeepNs = 1'000'000'000;

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// statm: size, then resident, in pages.
std::optional<std::uint64_t> read_rss(const std::string& root) {
  const auto text = read_system_file(root + "/proc/self/statm");
  if (!text) return std::nullopt;
  const std::string_view pages = std::string_view(*text).substr(0, text->find('\n'));
  const std::size_t from = pages.find(' ');
  if (from == std::string_view::npos) return std::nullopt;
  const std::size_t to = pages.find(' ', from + 1);
  const auto resident = to_number(pages.substr(from, to == pages.npos ? to : to - from));
  static const auto kPageBytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return resident ? std::optional(*resident * kPageBytes) : std::nullopt;
}

std::uint64_t less(std::uint64_t from, std::uint64_t bytes) { return from - std::min(from, bytes); }

std::optional<SharedMemoryFolder> read_shared_memory(const std::string& root) {
  struct statvfs reported{};
  if (::statvfs((root + "/dev/shm").c_str(), &reported) != 0) return std::nullopt;
  SharedMemoryFolder folder;
  folder.size_bytes = std::uint64_t{reported.f_blocks} * reported.f_frsize;
  folder.used_bytes = less(folder.size_bytes, std::uint64_t{reported.f_bfree} * reported.f_frsize);
  return folder;
}

}  // namespace

MachineMemory read_machine_memory(const std::string& root) {
  MachineMemory reported;
  const std::string text = read_system_file(root + "/proc/meminfo").value_or("");
  reported.total_bytes = bytes_after(text, "MemTotal:");
  reported.available_bytes = bytes_after(text, "MemAvailable:");
  reported.swap_total_bytes = bytes_after(text, "SwapTotal:");
  reported.swap_free_bytes = bytes_after(text, "SwapFree:");
  reported.shared_memory = read_shared_memory(root);
  reported.pressure = read_memory_pressure(root + "/proc/pressure/memory");
  return reported;
}

void HostProbe::read_group(std::int64_t now_ns) {
  if (group_read_ns_ != 0 && now_ns - group_read_ns_ < kKeepNs) return;
  group_read_ns_ = now_ns;
  if (!machine_total_bytes_) machine_total_bytes_ = read_machine_memory(root_).total_bytes;
  group_ = find_cgroup_limit(root_, "self");
  const bool limits = group_ && group_->limit_bytes &&
                      *group_->limit_bytes < machine_total_bytes_.value_or(UINT64_MAX);
  if (!limits) group_.reset();
  group_cache_bytes_ = group_ ? read_cgroup_inactive_file(*group_).value_or(0) : 0;
}

HostMemory HostProbe::read() {
  read_group(monotonic_ns());
  HostMemory reported;
  reported.rss_bytes = read_rss(root_);
  if (group_) {
    const auto current = read_cgroup_current(*group_);
    if (current) reported.used_bytes = less(*current, group_cache_bytes_);
    reported.total_bytes = group_->limit_bytes;
    return reported;
  }
  const auto text = read_system_file(root_ + "/proc/meminfo");
  if (!text) return reported;
  reported.total_bytes = bytes_after(*text, "MemTotal:");
  const auto available = bytes_after(*text, "MemAvailable:");
  if (reported.total_bytes && available)
    reported.used_bytes = less(*reported.total_bytes, *available);
  return reported;
}

HostMemory read_host_memory() { return base::PerThread<HostProbe, HostProbe>::get().read(); }

std::optional<std::uint64_t> read_free_heap() {
  // As in malloc.h, which a program built for an older glibc does not have.
  struct HeapFigures {
    std::size_t before[8];
    std::size_t free_bytes;
    std::size_t trimmable_bytes;
  };
  static const auto kRead = reinterpret_cast<HeapFigures (*)()>(::dlsym(RTLD_DEFAULT, "mallinfo2"));
  return kRead != nullptr ? std::optional<std::uint64_t>(kRead().free_bytes) : std::nullopt;
}

}  // namespace plimsoll::probes
