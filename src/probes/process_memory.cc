#include "probes/process_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "probes/system_files.h"

namespace plimsoll::probes {
namespace {

constexpr std::size_t kMostChildren = 1024;

std::string folder_of(int pid, const std::string& root) {
  return root + "/proc/" + std::to_string(pid);
}

std::optional<std::uint64_t> sum(std::optional<std::uint64_t> a, std::optional<std::uint64_t> b) {
  if (!a || !b) return std::nullopt;
  return *a + *b;
}

std::uint64_t page_bytes() {
  static const auto kBytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

// "12 (a (strange) name) S 1 …": the name may contain anything, so it ends at the last parenthesis.
std::optional<ProcessEntry> read_stat(int pid, const std::string& root) {
  const auto text = read_system_file(folder_of(pid, root) + "/stat");
  if (!text) return std::nullopt;
  const std::size_t open = text->find('(');
  const std::size_t close = text->rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessEntry entry;
  entry.pid = pid;
  entry.name = text->substr(open + 1, close - open - 1);
  std::string_view rest = std::string_view(*text).substr(close + 1);
  constexpr int kParent = 4;  // numbered as in proc(5), where the first field after the name is 3
  constexpr int kStart = 22;
  constexpr int kRss = 24;
  for (int field = 3; field <= kRss; ++field) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const std::string_view word = rest.substr(0, rest.find_first_of(" \n"));
    rest.remove_prefix(word.size());
    const std::uint64_t value = to_number(word).value_or(0);
    if (field == kParent) entry.parent_pid = static_cast<int>(value);
    if (field == kStart) entry.start_ticks = value;
    if (field == kRss) entry.rss_bytes = value * page_bytes();
  }
  return entry;
}

std::optional<std::uint64_t> private_bytes_in(const std::string& rollup) {
  return sum(bytes_after(rollup, "Private_Clean:"), bytes_after(rollup, "Private_Dirty:"));
}

void read_pss(ProcessMemory& reported, const std::string& folder) {
  const auto text = read_system_file(folder + "/smaps_rollup");
  if (!text) return;
  reported.pss_bytes = bytes_after(*text, "Pss:");
  reported.private_bytes = private_bytes_in(*text);
  reported.shared_bytes =
      sum(bytes_after(*text, "Shared_Clean:"), bytes_after(*text, "Shared_Dirty:"));
}

ChildKind kind_of(const std::string& name, const std::string& command,
                  const std::string& parent_command) {
  if (name == "pt_data_worker") return ChildKind::kDataLoaderWorker;
  if (command.find("multiprocessing.") != std::string::npos) return ChildKind::kSpawned;
  const bool is_fork = !command.empty() && command == parent_command;
  return is_fork ? ChildKind::kForked : ChildKind::kProgram;
}

// Of each thread; nullopt if the kernel does not list children (CONFIG_PROC_CHILDREN).
std::optional<std::vector<int>> children_of_threads(int pid, const std::string& root) {
  const std::string tasks = folder_of(pid, root) + "/task";
  std::vector<int> children;
  bool is_listed = false;
  for (const std::string& task : list_system_folder(tasks)) {
    std::string path = tasks;
    path.append("/").append(task).append("/children");
    const auto text = read_system_file(path);
    is_listed = is_listed || text.has_value();
    std::string_view rest = text ? std::string_view(*text) : std::string_view();
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      if (const auto child = to_number(word)) children.push_back(static_cast<int>(*child));
    }
  }
  return is_listed ? std::optional(std::move(children)) : std::nullopt;
}

std::multimap<int, int> children_of_all(const std::string& root) {
  std::multimap<int, int> children;
  for (const ProcessEntry& entry : list_processes(root)) {
    children.emplace(entry.parent_pid, entry.pid);
  }
  return children;
}

}  // namespace

const char* to_string(ChildKind kind) {
  switch (kind) {
    case ChildKind::kDataLoaderWorker:
      return "DataLoader worker";
    case ChildKind::kForked:
      return "forked";
    case ChildKind::kSpawned:
      return "multiprocessing";
    case ChildKind::kProgram:
      return "program";
  }
  return "";
}

std::vector<ProcessEntry> list_processes(const std::string& root) {
  std::vector<ProcessEntry> found;
  for (const std::string& name : list_system_folder(root + "/proc")) {
    int pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    if (auto entry = read_stat(pid, root)) found.push_back(std::move(*entry));
  }
  std::ranges::sort(found, {}, &ProcessEntry::pid);
  return found;
}

std::vector<int> descendants(int pid, const std::string& root) {
  const bool are_listed = children_of_threads(pid, root).has_value();
  const std::multimap<int, int> all =
      are_listed ? std::multimap<int, int>() : children_of_all(root);
  const auto children_of = [&](int parent) {
    if (are_listed) return children_of_threads(parent, root).value_or(std::vector<int>());
    std::vector<int> children;
    const auto [from, to] = all.equal_range(parent);
    for (auto at = from; at != to; ++at) children.push_back(at->second);
    return children;
  };
  std::set<int> found;
  std::vector<int> waiting = {pid};
  while (!waiting.empty()) {
    const int parent = waiting.back();
    waiting.pop_back();
    for (const int child : children_of(parent)) {
      if (found.size() == kMostChildren) break;
      if (child == pid || !found.insert(child).second) continue;
      waiting.push_back(child);
    }
  }
  return {found.begin(), found.end()};
}

std::uint64_t own_pid_namespace() {
  struct stat status{};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? std::uint64_t{status.st_ino} : 0;
}

bool are_driver_pids_ours() {
  constexpr std::uint64_t kFirstNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO in the kernel
  const std::uint64_t own = own_pid_namespace();
  return own == kFirstNamespace || own == 0;
}

bool has_nccl(const std::string& root) {
  const std::string tasks = root + "/proc/self/task";
  return std::ranges::any_of(list_system_folder(tasks), [&](const std::string& task) {
    const auto name = read_system_file(tasks + "/" + task + "/comm");
    return name && name->starts_with("pt_nccl_watchdg");
  });
}

std::string read_command_line(int pid, const std::string& root) {
  std::string text = read_system_file(folder_of(pid, root) + "/cmdline").value_or("");
  while (text.ends_with('\0')) text.pop_back();
  std::ranges::replace(text, '\0', ' ');
  return text;
}

std::optional<std::uint64_t> read_start_ticks(int pid, const std::string& root) {
  const auto stat = read_stat(pid, root);
  return stat ? std::optional(stat->start_ticks) : std::nullopt;
}

std::optional<ProcessMemory> read_process_memory(int pid, Depth depth, const std::string& root) {
  const auto stat = read_stat(pid, root);
  if (!stat) return std::nullopt;
  const std::string folder = folder_of(pid, root);
  const std::string status = read_system_file(folder + "/status").value_or("");
  ProcessMemory reported;
  reported.pid = pid;
  reported.parent_pid = stat->parent_pid;
  reported.name = stat->name;
  reported.start_ticks = stat->start_ticks;
  reported.rss_bytes = bytes_after(status, "VmRSS:");
  reported.peak_rss_bytes = bytes_after(status, "VmHWM:");
  reported.anonymous_bytes = bytes_after(status, "RssAnon:");
  reported.file_bytes = bytes_after(status, "RssFile:");
  reported.shared_memory_bytes = bytes_after(status, "RssShmem:");
  reported.swap_bytes = bytes_after(status, "VmSwap:");
  if (depth == Depth::kWithPss) read_pss(reported, folder);
  return reported;
}

std::optional<ChildKind> read_child_kind(int pid, const std::string& root) {
  const auto stat = read_stat(pid, root);
  if (!stat) return std::nullopt;
  return kind_of(stat->name, read_command_line(pid, root),
                 read_command_line(stat->parent_pid, root));
}

std::optional<std::uint64_t> read_private_bytes(int pid, const std::string& root) {
  const auto text = read_system_file(folder_of(pid, root) + "/smaps_rollup");
  return text ? private_bytes_in(*text) : std::nullopt;
}

bool has_pages(int pid, const std::string& root) {
  const auto stat = read_stat(pid, root);
  return stat && stat->rss_bytes > 0;
}

std::optional<ProcessFamily> read_process_family(int pid, Depth depth, const std::string& root) {
  auto parent = read_process_memory(pid, depth, root);
  if (!parent) return std::nullopt;
  ProcessFamily family;
  family.rss_sum_bytes = parent->rss_bytes.value_or(0);
  family.pss_sum_bytes = parent->pss_bytes;
  family.parent = std::move(*parent);
  for (const int child : descendants(pid, root)) {
    auto memory = read_process_memory(child, depth, root);
    if (!memory) continue;  // it has exited since
    const ChildKind kind = kind_of(memory->name, read_command_line(child, root),
                                   read_command_line(memory->parent_pid, root));
    family.rss_sum_bytes += memory->rss_bytes.value_or(0);
    family.pss_sum_bytes = sum(family.pss_sum_bytes, memory->pss_bytes);
    family.children.push_back({kind, std::move(*memory)});
  }
  return family;
}

}  // namespace plimsoll::probes
