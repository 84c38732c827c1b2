#include "probes/worker_memory.h"

#include <time.h>
#include <unistd.h>

#include "base/per_thread.h"
#include "probes/process_memory.h"

namespace plimsoll::probes {
namespace {

constexpr std::int64_t kTimesCost = 50;

std::int64_t worker_clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

WorkerMemory read_worker_memory(int pid, const std::string& root) {
  WorkerMemory workers;
  for (const int child : descendants(pid, root)) {
    const auto kind = read_child_kind(child, root);
    if (!kind || *kind == ChildKind::kProgram) continue;
    const auto private_bytes = read_private_bytes(child, root);
    // A process that has ended, but whose parent has not noticed, has no pages.
    if (!private_bytes && !has_pages(child, root)) continue;
    ++workers.count;
    if (!private_bytes) workers.private_bytes.reset();
    if (workers.private_bytes) *workers.private_bytes += *private_bytes;
  }
  return workers;
}

WorkerMemory WorkerProbe::read(std::int64_t (*clock_ns)()) {
  const int pid = ::getpid();
  const std::int64_t begin_ns = clock_ns();
  if (pid == pid_ && begin_ns < next_ns_) return last_;
  last_ = read_worker_memory(pid, root_);
  const std::int64_t end_ns = clock_ns();
  next_ns_ = end_ns + kTimesCost * (end_ns - begin_ns);
  pid_ = pid;
  return last_;
}

WorkerMemory read_own_worker_memory() {
  return base::PerThread<WorkerProbe, WorkerProbe>::get().read(worker_clock_ns);
}

}  // namespace plimsoll::probes
