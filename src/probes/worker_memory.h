// The memory that the workers of a process (of its DataLoader, or of multiprocessing) have for
// themselves, at a bounded cost: the kernel walks all pages of a worker to find its private ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace plimsoll::probes {

struct WorkerMemory {
  std::uint64_t count = 0;
  // Pages that no other process maps. Pages shared with the parent are part of the parent's
  // resident set. nullopt: Linux does not reveal them for one of the workers.
  std::optional<std::uint64_t> private_bytes = 0;
};

// Reads the workers of a process: its descendants, except programs that it started.
WorkerMemory read_worker_memory(int pid, const std::string& root = {});

// Reads the workers of this process. Repeats the previous reading while a new one would raise the
// cost of reading above 2 % of the time. One thread; safe to fork.
class WorkerProbe {
 public:
  explicit WorkerProbe(std::string root = {}) : root_(std::move(root)) {}
  // `clock_ns` is called before and after a reading.
  WorkerMemory read(std::int64_t (*clock_ns)());

 private:
  std::string root_;
  int pid_ = 0;
  std::int64_t next_ns_ = 0;
  WorkerMemory last_;
};

// Calls WorkerProbe::read on this thread's own probe. Any thread, no lock.
WorkerMemory read_own_worker_memory();

}  // namespace plimsoll::probes
