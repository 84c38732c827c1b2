// Memory monitoring while a program trains: current usage, blocks of code, and training loops.
//
//   {
//     plimsoll::TrackMemory load("loading dataset");  // [Memory] loading dataset: CPU +450.2 MB,
//   }                                                 // GPU +1250.5 MB
//   plimsoll::EpochMemoryMonitor monitor;             // Memory monitoring enabled (...)
//   monitor.on_epoch_start();
//   monitor.on_batch_end(0, plimsoll::known_loss(loss));
//   monitor.on_epoch_end();
//
// Tensor figures come from the recorder: exact bytes, and the exact peak of a span, not a sample.
// They need an adapter (LibTorch: memory_tracer.h) and one call of start_watching(); otherwise only
// the process's resident memory is known. Nothing here stops the program: if memory runs out, a
// line is missing; only constructors and functions that return figures throw std::bad_alloc. One MB
// is 1024 x 1024 bytes. Free functions may be called from any thread; an object belongs to one
// thread at a time. Link plimsoll::monitor.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/memory_sample.h"
#include "plimsoll/result.h"

namespace plimsoll {

// ---- what is counted --------------------------------------------------------------------------

// Counts live tensors from now on, without a trace file. Does nothing if the watch already runs.
// Returns an error if the recorder cannot start it.
Status start_watching();
void stop_watching();
bool is_watching();

// Publishes the live memory of this process to `plimsoll top`: a thread checks four times a second
// whether it is requested. Calls are counted: each start needs a stop. With PLIMSOLL_LIVE=0 in the
// environment nothing is published, which is not an error. In a forked child the count is 0 again.
// A stop may wait for a sample in progress, and therefore for the locks of the device source.
Status start_showing();
void stop_showing();
// Sets the current iteration and loss of this process, for `plimsoll top`; an unknown loss keeps
// the previous one.
void show_progress(std::int64_t iteration, std::optional<double> loss = {});

// Sends phases, layers, regions and steps as NVTX ranges, and the bytes of each device as marks, to
// the tool that reads them, usually Nsight Systems (plimsoll nsys). Calls are counted, as for
// start_showing(). Returns an error and installs nothing if no tool reads NVTX.
Status start_nvtx();
void stop_nvtx();

// Queries NVIDIA's driver once a second, on a separate thread, for the memory use of this process's
// GPUs; samples and running recordings show it. Calls are counted. Without such a driver the thread
// ends immediately, which is not an error. It does not run in a forked child.
void start_device_watch();
void stop_device_watch();
// The use of a CUDA device's memory, as the driver last reported it. If `wait_ns` is not 0, queries
// the driver now and waits at most that long. nullopt if unknown.
std::optional<DeviceBar> current_device_bar(std::int32_t ordinal, std::int64_t wait_ns = 0);
// For example "tensors 48.0 GiB, cached 12.0 GiB, CUDA context and modules 0.5 GiB, ..."
std::string device_bar_text(const DeviceBar& bar);

// Returns the figures of caching allocators and drivers. Called on the thread that takes a sample.
using DeviceSource = std::function<std::vector<DeviceMemory>()>;
void set_device_source(DeviceSource source);

struct TensorUsage {
  std::optional<std::uint64_t> allocated_bytes;
  std::optional<std::uint64_t> reserved_bytes;
  std::optional<std::uint64_t> peak_bytes;
  std::optional<std::uint64_t> peak_reserved_bytes;  // known only for recorded memory
  // An upper bound of the peak if the exact one is unknown.
  std::optional<std::uint64_t> peak_below_bytes;
};
struct MemoryUsage {
  std::optional<std::uint64_t> rss_bytes;  // of this process
  TensorUsage cpu;                         // tensors in host memory
  std::optional<TensorUsage> gpu;          // all accelerators together; absent without one

  // The GPU if there is one, else the CPU.
  const TensorUsage& tensors() const { return gpu ? *gpu : cpu; }
};

// The memory used now, without peaks.
MemoryUsage current_usage();

// Measures the peaks of all devices from its construction on.
class PeakSpan {
 public:
  PeakSpan();
  PeakSpan(PeakSpan&& other) noexcept;
  PeakSpan& operator=(PeakSpan&& other) noexcept;
  ~PeakSpan();

  // The memory used now, and the peaks since the span began.
  MemoryUsage usage() const;
  // The peak of tensor memory on each device since the span began, by name ("cpu", "cuda:0");
  // without devices whose peak is unknown.
  std::map<std::string, std::uint64_t> peaks() const;

 private:
  friend struct SampleTaker;
  std::uint64_t id_ = 0;
  std::uint64_t watch_ = 0;             // number of the start_watching() that it belongs to
  std::vector<DeviceMemory> at_begin_;  // from the device source
};

// The ends of the last three steps, to find memory that no operator has used in the last two.
class UseSteps {
 public:
  // Call it between two operators.
  void end_step();

 private:
  friend struct SampleTaker;
  struct Point {
    std::uint64_t clock = 0;
    std::uint64_t span = 0;  // 0: uses were not observed
  };
  std::array<Point, 3> ends_ = {};  // the oldest first
};

struct SampleOptions {
  std::int64_t iteration = 0;
  std::optional<double> loss = {};
  std::uint64_t large_tensor_bytes = 100 << 20;
  std::size_t large_tensors = 10;        // number of large tensors listed
  const PeakSpan* peak_since = nullptr;  // if null, the sample has no peaks
  const UseSteps* use_steps = nullptr;   // if null, the sample has no unused memory
};
// Takes a sample of the live memory by category, dtype and layer. Takes some milliseconds for
// 100,000 live tensors.
MemorySample take_sample(const SampleOptions& options = {});

// ---- point-in-time measurements and blocks ----------------------------------------------------
// docs/monitoring.md has examples of the printed lines. Without a GPU they say "CPU tensors"
// instead of "GPU".

// Receives each line without its newline.
using LinePrinter = std::function<void(const std::string& line)>;
void print_to_stdout(const std::string& line);

class MemoryMonitor {
 public:
  static double get_cpu_memory_mb();  // resident set of this process; 0 if unknown
  static double get_gpu_memory_mb();  // tensors on all accelerators; 0 without one
  // "CPU: 1645.1 MB | GPU Allocated: 23.1 MB | GPU Reserved: 3242.0 MB"
  static std::string get_memory_summary();
  // Prints the prefix and the summary, with a space between them unless the prefix ends with one.
  static void print_memory_usage(const std::string& prefix = "",
                                 const LinePrinter& print = print_to_stdout);
};

struct MemoryCheckpoint {
  std::string name;
  MemoryUsage usage;
};

// Records named checkpoints; the summary shows each one and the change since the previous one.
class MemoryTracker {
 public:
  explicit MemoryTracker(LinePrinter print = print_to_stdout) : print_(std::move(print)) {}
  void record(std::string name);
  void print_summary() const;
  const std::vector<MemoryCheckpoint>& checkpoints() const { return checkpoints_; }

 private:
  void print_changes() const;

  LinePrinter print_;
  std::vector<MemoryCheckpoint> checkpoints_;
};

// The change of memory over a block.
struct BlockMemory {
  MemoryUsage before;
  MemoryUsage after;                           // with the peaks of the block
  std::map<std::string, std::uint64_t> peaks;  // as PeakSpan::peaks()

  // The peak of tensor memory inside the block: on accelerators, or in host memory if there are
  // none.
  std::optional<std::uint64_t> peak_bytes() const { return after.tensors().peak_bytes; }
};

// Measures a block: the change of memory over it and the peak inside it, printed at its end.
class TrackMemory {
 public:
  explicit TrackMemory(std::string name, LinePrinter print = print_to_stdout);
  TrackMemory(const TrackMemory&) = delete;
  TrackMemory& operator=(const TrackMemory&) = delete;
  ~TrackMemory();
  // Ends the block and prints; later calls do not print again.
  const BlockMemory& finish();

 private:
  std::string name_;
  LinePrinter print_;
  BlockMemory memory_;
  std::optional<PeakSpan> span_;
};

// ---- training loops ---------------------------------------------------------------------------

// A loss that is read only when its line is printed, because reading a tensor waits for the device.
using Loss = std::function<std::optional<double>()>;
inline Loss no_loss() { return {}; }
inline Loss known_loss(double value) {
  return [value] { return std::optional<double>(value); };
}

enum class Monitoring : std::uint8_t { kOff, kOn };

// Prints a banner when constructed, a line for each of the first batches of an epoch, and the peak
// at the end of the epoch. With kOff it prints nothing.
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

// For optimizers that evaluate a loss function themselves, such as L-BFGS. Prints a line for each
// of the first loss evaluations, and memory and peak at the end. "Iteration N" is the Nth
// evaluation.
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

// Shows where memory goes within a batch: named checkpoints and the changes between them.
class BatchMemoryProfiler {
 public:
  explicit BatchMemoryProfiler(Monitoring monitoring = Monitoring::kOn,
                               LinePrinter print = print_to_stdout);
  void checkpoint(std::string name);
  void print_summary() const;
  void reset();    // discards the checkpoints
  void disable();  // afterwards every method does nothing

 private:
  void print_changes() const;

  Monitoring monitoring_;
  LinePrinter print_;
  std::vector<MemoryCheckpoint> checkpoints_;
};

}  // namespace plimsoll
