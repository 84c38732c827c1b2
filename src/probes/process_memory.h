// The memory of a process, alone or with all its descendants (the workers of a DataLoader). Figures
// that Linux does not reveal, mostly of other users' processes, are absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::probes {

struct ProcessMemory {
  int pid = 0;
  int parent_pid = 0;
  std::string name;               // from the kernel, at most 15 characters
  std::uint64_t start_ticks = 0;  // since boot; together with the pid it identifies the process

  std::optional<std::uint64_t> rss_bytes;  // private and shared pages, shared ones in full
  std::optional<std::uint64_t> peak_rss_bytes;
  // Part of rss: heap and stacks, including those that a fork still shares with its parent.
  std::optional<std::uint64_t> anonymous_bytes;
  std::optional<std::uint64_t> file_bytes;           // part of rss: mapped files, libraries
  std::optional<std::uint64_t> shared_memory_bytes;  // part of rss: /dev/shm and similar
  std::optional<std::uint64_t> swap_bytes;

  // From smaps_rollup, for which the kernel walks all pages: milliseconds for a large process.
  std::optional<std::uint64_t> pss_bytes;      // a page that n processes share counts 1/n
  std::optional<std::uint64_t> private_bytes;  // pages of this process alone
  std::optional<std::uint64_t> shared_bytes;
};

// The acceptable cost of a query.
enum class Depth : std::uint8_t { kQuick, kWithPss };

// Returns nullopt if there is no such process.
std::optional<ProcessMemory> read_process_memory(int pid, Depth depth,
                                                 const std::string& root = {});

// The start time in /proc/PID/stat; nullopt if there is no such process.
std::optional<std::uint64_t> read_start_ticks(int pid, const std::string& root = {});

// The cheap facts about a process, listed for all processes in one pass.
struct ProcessEntry {
  int pid = 0;
  int parent_pid = 0;
  std::string name;
  std::uint64_t start_ticks = 0;
  std::uint64_t rss_bytes = 0;
};
std::vector<ProcessEntry> list_processes(const std::string& root = {});  // by pid

// All descendants, at most 1024, by pid. Asks the kernel for the children of each thread, or lists
// all processes if it does not reveal them.
std::vector<int> descendants(int pid, const std::string& root = {});

// The inode of this process's pid namespace; 0: unknown.
std::uint64_t own_pid_namespace();

// Whether the driver's pids are valid in this process's namespace. They are not inside a container,
// where the driver reports the host's pids.
bool are_driver_pids_ours();

// Whether PyTorch uses NCCL in this process: NCCL then has a monitoring thread.
bool has_nccl(const std::string& root = {});

// The arguments, separated by spaces; empty if there are none or they may not be read.
std::string read_command_line(int pid, const std::string& root = {});

enum class ChildKind : std::uint8_t {
  kDataLoaderWorker,  // names itself pt_data_worker (torch >= 2.6)
  kForked,            // has its parent's command line: for example, a worker of an older torch
  kSpawned,           // a Python process started by multiprocessing (spawn, forkserver, its
                      // tracker)
  kProgram,           // any other
};
const char* to_string(ChildKind kind);

// nullopt if there is no such process.
std::optional<ChildKind> read_child_kind(int pid, const std::string& root = {});

// The private pages of a process alone; nullopt if Linux does not reveal them.
std::optional<std::uint64_t> read_private_bytes(int pid, const std::string& root = {});
bool has_pages(int pid, const std::string& root = {});

struct ChildMemory {
  ChildKind kind = ChildKind::kProgram;
  ProcessMemory memory;
};

struct ProcessFamily {
  ProcessMemory parent;
  std::vector<ChildMemory> children;  // the descendants, by pid
  std::uint64_t rss_sum_bytes = 0;    // counts shared pages once per process
  // The sum of PSS, which counts shared pages once; nullopt unless it is known for all processes.
  std::optional<std::uint64_t> pss_sum_bytes;
};
std::optional<ProcessFamily> read_process_family(int pid, Depth depth,
                                                 const std::string& root = {});

}  // namespace plimsoll::probes
