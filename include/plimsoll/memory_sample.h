// The memory of a run at one point in time. Holds only values: take_sample() (monitor.h) fills them
// in, and everything that prints, logs or plots reads them. Sizes are bytes, times are nanoseconds.
//
// Unknown values are absent (nullopt, or an empty list), never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

// The live tensor memory of one category, dtype or layer.
struct MemoryShare {
  std::string name;
  std::uint64_t size_bytes = 0;
  std::uint64_t count = 0;  // allocations; a storage counts once, however many views it has
};

// One live allocation.
struct LiveTensor {
  std::string name;  // of a parameter, a buffer, ...; empty: unknown
  std::string category;
  std::string dtype;  // empty: unknown
  std::string shape;  // "[64, 3, 7, 7]"; empty: unknown
  std::string layer;  // the layer that created it; empty: none
  std::uint64_t size_bytes = 0;
};

// A part of the used memory of a device.
struct DevicePart {
  // "tensors", "cached": memory of PyTorch's allocator. "context", "outside": other memory of this
  // process. "process": memory of another process. "driver": reserved by driver and firmware. The
  // last part has the remainder: "not_reported" (outside the allocator, of this process or of
  // others), "others" (of processes whose bytes the driver does not report) or "unexplained".
  std::string kind = {};
  std::int64_t size_bytes = 0;  // negative: the amount by which the figures disagree
  std::int64_t pid = 0;         // "process": its pid; 0: several processes
  std::uint64_t count = 0;      // "process", "others": number of processes
  std::string name = {};        // "process": its command; "outside": "NCCL" if it is in use
};

// The use of a device's whole memory. The parts sum to used_bytes, to the byte.
struct DeviceBar {
  std::uint64_t used_bytes = 0;  // not free; includes memory that the driver reserves for itself
  std::uint64_t total_bytes = 0;
  std::int64_t time_ns = 0;  // when the driver reported it, since 1970
  std::vector<DevicePart> parts = {};
};

// The recorded tensors of one device, and the device's figures from its allocator and its driver.
struct DeviceMemory {
  std::string name;  // "cpu", "cuda:0"

  // Live tensors. The shares of each list sum to live_bytes, to the byte.
  std::uint64_t live_bytes = 0;
  std::uint64_t live_count = 0;
  std::vector<MemoryShare> categories;  // docs/attribution.md, "Category"; largest first
  std::vector<MemoryShare> dtypes;      // "float32"; "unknown" without a tensor; largest first
  std::vector<MemoryShare> layers;      // of the owner, or else the creator; "" if none
  // The parameters that no layer below the root module owns: attributes of the model, or named
  // groups of an optimizer. Each with its gradient and its optimizer's state ("xyz/parameters",
  // "xyz/gradients", "xyz/optimizer_state"); largest first.
  std::vector<MemoryShare> components;
  // Tensors of at least the sample's large_tensor_bytes: their number and bytes, and the largest
  // ones.
  std::uint64_t large_count = 0;
  std::uint64_t large_bytes = 0;
  std::vector<LiveTensor> large_tensors;

  // Figures of the allocator: reserved bytes of a caching allocator, and the peak since the
  // previous sample.
  std::optional<std::uint64_t> allocated_bytes;
  std::optional<std::uint64_t> reserved_bytes;
  std::optional<std::uint64_t> peak_bytes;
  // What was live at the peak: its phase ("backward"), its categories, largest first, and its
  // largest tensors, including those freed since. The shares have no count and sum to peak_bytes.
  // Empty: unknown.
  std::string peak_phase;
  std::vector<MemoryShare> at_peak;
  std::vector<LiveTensor> peak_tensors;
  // Bytes that each iteration leaves behind, judged by the allocations of earlier ones that are
  // still live, and the same by category, with the number of allocations; 0: none. Known after at
  // least 20 samples (docs/monitoring-reference.md, "Growth").
  std::optional<std::uint64_t> growth_bytes;
  std::vector<MemoryShare> growing;
  // Live bytes that no operator has used during the last two steps (docs/last-use.md), and the same
  // by layer, largest first. Absent unless the uses of both steps were observed.
  std::optional<std::uint64_t> unused_bytes;
  std::vector<MemoryShare> unused;
  // Figures of the device: bytes used by all processes, and total bytes.
  std::optional<std::uint64_t> used_bytes;
  std::optional<std::uint64_t> total_bytes;
  std::string uuid;              // "GPU-..." or "MIG-...", from the driver; empty: unknown
  std::optional<DeviceBar> bar;  // at most a few seconds old
};

// The machine, as this process sees it.
struct HostMemory {
  std::optional<std::uint64_t> rss_bytes;   // resident set of this process
  std::optional<std::uint64_t> used_bytes;  // of the machine, or of the cgroup where it has a limit
  std::optional<std::uint64_t> total_bytes;  // of the same
  // CPU time of this process since the previous sample; 100 is one core.
  std::optional<double> cpu_percent;
  // Workers of a DataLoader or of multiprocessing, and the memory that only they have: what they
  // share with this process is part of rss_bytes.
  std::uint64_t worker_count = 0;
  std::optional<std::uint64_t> workers_bytes;  // absent without workers
};

struct MemorySample {
  std::int64_t time_ns = 0;  // since 1970
  std::int64_t iteration = 0;
  std::optional<double> loss;
  std::optional<std::int64_t> batch_size;  // items of the largest batch since the previous sample
  bool ran_out = false;                    // of memory, in the middle of this iteration
  std::string ran_out_of;                  // the device that ran out of memory; empty: unknown
  std::optional<std::int64_t> failed_batch_size;  // of the iteration that failed, if known
  std::uint64_t large_tensor_bytes = 0;           // size above which a tensor is large
  HostMemory host;
  std::vector<DeviceMemory> devices;  // the CPU first
};

// (reserved - allocated) / reserved, as PyTorch users compute it; nullopt if nothing is reserved.
inline std::optional<double> fragmentation_ratio(const DeviceMemory& device) {
  if (!device.reserved_bytes || !device.allocated_bytes || *device.reserved_bytes == 0)
    return std::nullopt;
  const std::uint64_t reserved = *device.reserved_bytes;
  const std::uint64_t cached =
      reserved > *device.allocated_bytes ? reserved - *device.allocated_bytes : 0;
  return static_cast<double>(cached) / static_cast<double>(reserved);
}

}  // namespace plimsoll
