// What processes hold of the machine's memory: one of them, or one with all that it has started
// (the workers of a DataLoader). What Linux does not tell us, of other users' processes above all,
// is absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::probes {

struct ProcessMemory {
  int pid = 0;
  int parent_pid = 0;
  std::string name;               // as the kernel has it, at most 15 letters
  std::uint64_t start_ticks = 0;  // since boot; with the pid, this process and no other

  std::optional<std::uint64_t> rss_bytes;  // private and shared pages, shared ones in full
  std::optional<std::uint64_t> peak_rss_bytes;
  std::optional<std::uint64_t> anonymous_bytes;  // of rss: heap and stacks, also those that a fork
                                                 // still shares with its parent
  std::optional<std::uint64_t> file_bytes;       // of rss: mapped files, libraries
  std::optional<std::uint64_t> shared_memory_bytes;  // of rss: /dev/shm and its like
  std::optional<std::uint64_t> swap_bytes;

  // From smaps_rollup, which makes the kernel walk all its pages: milliseconds for a large process.
  std::optional<std::uint64_t> pss_bytes;      // a page that n processes share counts 1/n
  std::optional<std::uint64_t> private_bytes;  // nobody else has these pages
  std::optional<std::uint64_t> shared_bytes;
};

// How dear the answer may be.
enum class Depth : std::uint8_t { kQuick, kWithPss };

// nullopt: there is no such process.
std::optional<ProcessMemory> read_process_memory(int pid, Depth depth,
                                                 const std::string& root = {});

// /proc/PID/stat's start time; nullopt: there is no such process.
std::optional<std::uint64_t> read_start_ticks(int pid, const std::string& root = {});

// What one look at a process tells, of all of them together.
struct ProcessEntry {
  int pid = 0;
  int parent_pid = 0;
  std::string name;
  std::uint64_t start_ticks = 0;
  std::uint64_t rss_bytes = 0;
};
std::vector<ProcessEntry> list_processes(const std::string& root = {});  // by pid

// The inode of this process's pid namespace; 0: unknown.
std::uint64_t own_pid_namespace();

// Whether the driver's pids are those of this process: not inside a container, where it tells those
// of the machine outside.
bool are_driver_pids_ours();

// Whether PyTorch talks to other GPUs through NCCL in this process: it then has a thread that
// watches over that.
bool has_nccl(const std::string& root = {});

// Its words, a space between two; empty where there are none or they may not be read.
std::string read_command_line(int pid, const std::string& root = {});

enum class ChildKind : std::uint8_t {
  kDataLoaderWorker,  // names itself pt_data_worker (torch >= 2.6)
  kForked,            // the same command line as its parent: workers of older torch, among others
  kSpawned,           // a Python that multiprocessing has started (spawn, forkserver, its tracker)
  kProgram,           // any other
};
const char* to_string(ChildKind kind);

struct ChildMemory {
  ChildKind kind = ChildKind::kProgram;
  ProcessMemory memory;
};

struct ProcessFamily {
  ProcessMemory parent;
  std::vector<ChildMemory> children;  // and theirs; at most 1024; by pid
  std::uint64_t rss_sum_bytes = 0;    // counts what they share once for each of them
  // Shared pages counted once: the sum of PSS. nullopt unless it is known of all of them.
  std::optional<std::uint64_t> pss_sum_bytes;
};
std::optional<ProcessFamily> read_process_family(int pid, Depth depth,
                                                 const std::string& root = {});

}  // namespace plimsoll::probes
