// Watching memory while a program trains: measures of a moment and of a block, monitors of a loop.
//
//   plimsoll::TrackMemory load("loading dataset");   // [Memory] loading dataset: CPU +450.2 MB,
//   ... plimsoll::EpochMemoryMonitor monitor;            // a line for the first batches of an
//   epoch, monitor.on_batch_end(batch, loss);               // one with the peak at its end
//
// The figures are the recorder's: exact bytes of tensors, and the true peak between two moments,
// not a sample. Whoever watches tensors attaches an adapter (for LibTorch memory_tracer.h does) and
// calls start_watching() once; without that only the process's own memory is told. Nothing here
// throws or stops the program. MB are 1024 x 1024 bytes. Link plimsoll_monitor.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/memory_sample.h"
#include "plimsoll/result.h"

namespace plimsoll {

// ---- the process's watch ----------------------------------------------------------------------

// Records into nothing from now on, for everything below to ask. Once it runs, does nothing.
Status start_watching();
void stop_watching();
bool is_watching();

// Lets `plimsoll top` see what this process holds, by its watch or by a recording: a thread looks
// four times a second whether somebody wants to see it. Counted: as many stops as starts end it.
// PLIMSOLL_LIVE=0 in the environment: nothing is shown, which is no error. In the child of a fork
// the count is 0 again. A stop may wait for a sample that is being taken, and so for the locks of
// the device source.
Status start_showing();
void stop_showing();
// Which iteration of its loop this process is in, for those who watch; a loss that is not known
// leaves the last one.
void show_progress(std::int64_t iteration, std::optional<double> loss = {});

// Shows phases, layers, regions and steps as NVTX ranges, and the bytes of each device as marks, to
// the tool that takes them: to Nsight Systems, mostly (plimsoll nsys). Counted, as start_showing()
// is. An error where no tool takes NVTX here; then nothing is installed.
Status start_nvtx();
void stop_nvtx();

// Asks NVIDIA's driver once a second, on a thread of its own, who holds the memory of the GPUs that
// this process has CUDA devices on: for samples, and for the recordings that run. Counted. Where
// there is no such driver it ends at once, which is no error. In the child of a fork it does not
// run.
void start_device_watch();
void stop_device_watch();
// All that is used on a CUDA device, by who holds it: the newest answer. With a wait the driver is
// asked now, and its answer waited for so long at most. nullopt: not known.
std::optional<DeviceBar> current_device_bar(std::int32_t ordinal, std::int64_t wait_ns = 0);
// "tensors 48.0 GiB, cached 12.0 GiB, CUDA context and modules 0.5 GiB, ..."
std::string device_bar_text(const DeviceBar& bar);

// What caching allocators and drivers say of their devices, asked by the thread that wants to know.
using DeviceSource = std::function<std::vector<DeviceMemory>()>;
void set_device_source(DeviceSource source);

struct TensorUsage {
  std::optional<std::uint64_t> allocated_bytes;
  std::optional<std::uint64_t> reserved_bytes;
  std::optional<std::uint64_t> peak_bytes;
  std::optional<std::uint64_t> peak_reserved_bytes;  // known of what is recorded
  // No exact peak is known, but it was not above this one, of an earlier time.
  std::optional<std::uint64_t> peak_below_bytes;
};
struct MemoryUsage {
  std::optional<std::uint64_t> rss_bytes;  // of this process
  TensorUsage cpu;                         // tensors in host memory
  std::optional<TensorUsage> gpu;          // all accelerators together; absent: there is none

  // What the program's tensors are mostly on.
  const TensorUsage& tensors() const { return gpu ? *gpu : cpu; }
};

// What is used now, without peaks.
MemoryUsage current_usage();

// From its making on, the peaks of all devices.
class PeakSpan {
 public:
  PeakSpan();
  PeakSpan(PeakSpan&& other) noexcept;
  PeakSpan& operator=(PeakSpan&& other) noexcept;
  ~PeakSpan();

  // What is used now, and the most there was since the span began.
  MemoryUsage usage() const;

 private:
  friend struct SampleTaker;
  std::uint64_t id_ = 0;
  std::uint64_t watch_ = 0;             // which start_watching() it belongs to
  std::vector<DeviceMemory> at_begin_;  // as the device source told
};

struct SampleOptions {
  std::int64_t iteration = 0;
  std::optional<double> loss = {};
  std::uint64_t large_tensor_bytes = 100 << 20;
  std::size_t large_tensors = 10;        // at most so many are told one by one
  const PeakSpan* peak_since = nullptr;  // null: no peaks
};
// What memory holds now, by category, dtype and layer. Some milliseconds for 100,000 live tensors.
MemorySample take_sample(const SampleOptions& options = {});

// ---- measures of a moment and of a block ------------------------------------------------------

// Where lines go; by default to standard output.
using LinePrinter = std::function<void(const std::string& line)>;
void print_to_stdout(const std::string& line);

class MemoryMonitor {
 public:
  static double get_cpu_memory_mb();  // resident set of this process; 0: not told
  static double get_gpu_memory_mb();  // tensors on all accelerators; 0 where there is none
  // "CPU: 1645.1 MB, GPU: 23.1 MB allocated, 3242.0 MB reserved"
  static std::string get_memory_summary();
  static void print_memory_usage(const std::string& prefix = "",
                                 const LinePrinter& print = print_to_stdout);
};

// Named moments, and what changed between them.
class MemoryTracker {
 public:
  explicit MemoryTracker(LinePrinter print = print_to_stdout) : print_(std::move(print)) {}
  void record(std::string name);
  void print_summary() const;

  struct Moment {
    std::string name;
    MemoryUsage usage;
  };
  const std::vector<Moment>& moments() const { return moments_; }

 private:
  LinePrinter print_;
  std::vector<Moment> moments_;
};

// A block: how memory changed from its beginning to its end, and the peak between them.
class TrackMemory {
 public:
  explicit TrackMemory(std::string name, LinePrinter print = print_to_stdout);
  TrackMemory(const TrackMemory&) = delete;
  TrackMemory& operator=(const TrackMemory&) = delete;
  ~TrackMemory() { finish(); }
  // Prints; the second time does nothing.
  void finish();

 private:
  std::string name_;
  LinePrinter print_;
  MemoryUsage before_;
  std::optional<PeakSpan> span_;
};

// ---- monitors of a loop -----------------------------------------------------------------------

// A loss, read only if its line is printed: reading a tensor may wait for the device.
using Loss = std::function<std::optional<double>()>;
inline Loss no_loss() { return {}; }
inline Loss known_loss(double value) {
  return [value] { return std::optional<double>(value); };
}

enum class Monitoring : std::uint8_t { kOff, kOn };

// A line for the first batches of an epoch, and one at its end.
class EpochMemoryMonitor {
 public:
  explicit EpochMemoryMonitor(Monitoring monitoring = Monitoring::kOn,
                              std::int64_t verbose_batches = 5,
                              LinePrinter print = print_to_stdout);
  void on_epoch_start();
  void on_batch_end(std::int64_t batch, const Loss& loss = no_loss());
  void on_epoch_end();

 private:
  Monitoring monitoring_;
  std::int64_t verbose_batches_;
  LinePrinter print_;
  std::optional<PeakSpan> span_;
};

// The same for loops that count evaluations of a loss, such as those of L-BFGS.
class OptimizationMemoryMonitor {
 public:
  explicit OptimizationMemoryMonitor(Monitoring monitoring = Monitoring::kOn,
                                     std::int64_t verbose_evaluations = 5,
                                     LinePrinter print = print_to_stdout);
  void on_start();
  void on_loss_evaluation(const Loss& loss = no_loss());
  void on_end();
  std::int64_t evaluations() const { return evaluations_; }

 private:
  Monitoring monitoring_;
  std::int64_t verbose_evaluations_;
  std::int64_t evaluations_ = 0;
  LinePrinter print_;
  std::optional<PeakSpan> span_;
};

// Where within a batch the memory goes: moments with names, and what was added between them.
class BatchMemoryProfiler {
 public:
  explicit BatchMemoryProfiler(Monitoring monitoring = Monitoring::kOn,
                               LinePrinter print = print_to_stdout);
  void checkpoint(std::string name);
  void print_summary() const;
  void reset();
  void disable();

 private:
  Monitoring monitoring_;
  LinePrinter print_;
  std::vector<MemoryTracker::Moment> moments_;
};

}  // namespace plimsoll
