// The NVIDIA driver's data about its GPUs, through NVML, which is loaded at run time, so building
// does not need it. Any call may fail, and an older driver may lack any function; the figure is
// then absent.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::probes {

struct GpuProcess {
  int pid = 0;  // in the host's pid namespace: differs from ours inside a container
  // Absent if this driver does not report it. (Some report 0 for processes in containers, which is
  // never the real value of a listed process.)
  std::optional<std::uint64_t> used_bytes;
};

// A GPU or, with MIG, one of its instances.
struct GpuDevice {
  std::string index;  // "0"; "0:1" for instance 1 of GPU 0
  std::string name;
  std::string uuid;
  std::optional<std::uint64_t> total_bytes;
  // Used by all processes. Old drivers (before 510) include their own reserved memory.
  std::optional<std::uint64_t> used_bytes;
  std::optional<std::uint64_t> reserved_bytes;  // by driver and firmware: neither used nor free
  std::optional<std::uint64_t> free_bytes;  // total less used and reserved, for any driver version
  std::optional<unsigned> busy_percent;  // share of the last sampling period in which a kernel ran
  bool reports_processes = false;        // false if the driver refuses to list them
  std::vector<GpuProcess> processes;     // those that compute or draw, each once; by pid
};

class Nvml {
 public:
  // The error explains in one sentence why no GPU is visible.
  static Result<Nvml> load(const std::string& library = "libnvidia-ml.so.1");
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;
  ~Nvml();

  // The GPUs by index. A GPU that has fallen off its bus has only its index.
  std::vector<GpuDevice> read();

 private:
  struct Functions;
  explicit Nvml(std::unique_ptr<Functions> functions);
  std::unique_ptr<Functions> functions_;
};

}  // namespace plimsoll::probes
