// What memory holds at one moment of a run: values only, made by a probe of the recorder and the
// system (monitor.h), and read by everything that prints, logs or plots. Sizes are bytes.
//
// What is not known is absent (nullopt, or an empty list), never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

// Live tensor memory that has a name in common: a category, a dtype, a layer.
struct MemoryShare {
  std::string name;
  std::uint64_t size_bytes = 0;
  std::uint64_t count = 0;  // allocations, a storage counted once however many views it has
};

// One live allocation.
struct LiveTensor {
  std::string name;  // of a parameter, a buffer, ...; empty: none is known
  std::string category;
  std::string dtype;  // empty: not known
  std::string shape;  // "[64, 3, 7, 7]"; empty: not known
  std::string layer;  // that made it; empty: none
  std::uint64_t size_bytes = 0;
};

// A part of what is used on a device.
struct DevicePart {
  // "tensors", "cached": our allocator's; "context", "outside": of this process, and not the
  // allocator's; "process": another one's; "driver": driver and firmware keep it; and what is left:
  // "not_told" (outside the allocator, of this process or of others), "others" (of processes whose
  // bytes the driver does not tell) or "unexplained".
  std::string kind = {};
  std::int64_t size_bytes = 0;  // below zero: the figures do not agree, by so much
  std::int64_t pid = 0;         // "process": whose; 0: of several
  std::uint64_t count = 0;      // "process", "others": how many processes
  std::string name = {};        // "process": its command; "outside": who is known to be there, NCCL
};

// Who holds a device's memory, all of it. The parts sum to used_bytes, to the byte.
struct DeviceBar {
  std::uint64_t used_bytes = 0;  // what is not free: also what the driver keeps for itself
  std::uint64_t total_bytes = 0;
  std::int64_t time_ns = 0;  // when the driver told it, since 1970
  std::vector<DevicePart> parts = {};
};

// The tensors of one device, by what is recorded; the device's own figures, by who manages it.
struct DeviceMemory {
  std::string name;  // "cpu", "cuda:0"

  // Live tensors. The shares of each list sum to live_bytes, to the byte.
  std::uint64_t live_bytes = 0;
  std::uint64_t live_count = 0;
  std::vector<MemoryShare> categories;  // DESIGN section 5's words, largest first
  std::vector<MemoryShare> dtypes;  // "float32"; "unknown" where no tensor was told; largest first
  std::vector<MemoryShare> layers;  // that own them, or else made them, "" for none; largest first
  // Those of at least the sample's large_tensor_bytes: how many, and the largest of them.
  std::uint64_t large_count = 0;
  std::uint64_t large_bytes = 0;
  std::vector<LiveTensor> large_tensors;

  // The allocator's: a caching allocator's reserved bytes, its peaks since it was last asked.
  std::optional<std::uint64_t> allocated_bytes;
  std::optional<std::uint64_t> reserved_bytes;
  std::optional<std::uint64_t> peak_bytes;
  // What lived at the peak, by its role: parameter, gradient, optimizer_state, buffer, input, and
  // all else as (rest). The shares have no count and sum to peak_bytes; empty: not known.
  std::vector<MemoryShare> at_peak;
  // The device's: all processes together, and what there is.
  std::optional<std::uint64_t> used_bytes;
  std::optional<std::uint64_t> total_bytes;
  std::string uuid;              // "GPU-..." or "MIG-...", as the driver has it; empty: not known
  std::optional<DeviceBar> bar;  // at most some seconds old
};

// The machine, as this process sees it.
struct HostMemory {
  std::optional<std::uint64_t> rss_bytes;   // resident set of this process
  std::optional<std::uint64_t> used_bytes;  // of the machine, or of the cgroup where it has a limit
  std::optional<std::uint64_t> total_bytes;  // the same
  // Processor time of this process since the sample before; 100 is one core.
  std::optional<double> cpu_percent;
};

struct MemorySample {
  std::int64_t time_ns = 0;  // since 1970
  std::int64_t iteration = 0;
  std::optional<double> loss;
  std::optional<std::int64_t> batch_size;  // items of the largest batch since the sample before
  bool ran_out = false;                    // of memory: an iteration that failed, in its middle
  std::string ran_out_of;                  // the device of whose memory; empty: not known
  std::optional<std::int64_t> failed_batch_size;  // of the iteration that failed, if it was told
  std::uint64_t large_tensor_bytes = 0;           // from which size on a tensor is large
  HostMemory host;
  std::vector<DeviceMemory> devices;  // the CPU first
};

// (reserved - allocated) / reserved, as PyTorch's users compute it; nullopt where there is no
// cache.
inline std::optional<double> fragmentation_ratio(const DeviceMemory& device) {
  if (!device.reserved_bytes || !device.allocated_bytes || *device.reserved_bytes == 0)
    return std::nullopt;
  const std::uint64_t reserved = *device.reserved_bytes;
  const std::uint64_t cached =
      reserved > *device.allocated_bytes ? reserved - *device.allocated_bytes : 0;
  return static_cast<double>(cached) / static_cast<double>(reserved);
}

}  // namespace plimsoll
