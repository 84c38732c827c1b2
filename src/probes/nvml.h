// What NVIDIA's driver tells of its GPUs, through NVML, which is looked for when it is asked for:
// nothing of it is needed to build. Any call may fail, any function may be missing from an older
// driver: then its figure is absent.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::probes {

struct GpuProcess {
  int pid = 0;  // of the machine's first namespace: inside a container, not one of ours
  // Absent: not told by this driver. (Some tell 0 of processes in containers, which no process has
  // that is in the list.)
  std::optional<std::uint64_t> used_bytes;
};

// A GPU, or with MIG one of the instances into which one is cut.
struct GpuDevice {
  std::string index;  // "0"; "0:1" for instance 1 of GPU 0
  std::string name;
  std::string uuid;
  std::optional<std::uint64_t> total_bytes;
  // Of all processes. An old driver (before 510) counts what it keeps for itself as used, too.
  std::optional<std::uint64_t> used_bytes;
  std::optional<std::uint64_t> reserved_bytes;  // for driver and firmware: neither used nor free
  std::optional<std::uint64_t> free_bytes;      // total less used and reserved, of any driver
  std::optional<unsigned> busy_percent;         // of the last moment in which a kernel ran
  bool tells_processes = false;                 // false: the driver refuses to list them
  std::vector<GpuProcess> processes;            // computing or drawing, each once; by pid
};

class Nvml {
 public:
  // The error says in a sentence why there is no GPU to be seen.
  static Result<Nvml> load(const std::string& library = "libnvidia-ml.so.1");
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;
  ~Nvml();

  // By index. A GPU that has fallen off its bus is there with nothing but its index.
  std::vector<GpuDevice> read();

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);
  std::unique_ptr<Functions> functions_;
};

}  // namespace plimsoll::probes
