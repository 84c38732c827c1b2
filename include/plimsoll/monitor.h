// Memory monitoring while a program trains: point-in-time measurements, blocks, training loops.
//
//   {
//     plimsoll::TrackMemory load("loading dataset");  // [Memory] loading dataset: CPU +450.2 MB,
//   }                                                 // GPU +1250.5 MB
//   plimsoll::EpochMemoryMonitor monitor;             // Memory monitoring enabled (...)
//   monitor.on_epoch_start();
//   monitor.on_batch_end(0, plimsoll::known_loss(loss));
//   monitor.on_epoch_end();
//
// Tensor figures come from the recorder: exact bytes, and the true peak of a span, not a sample.
// They need an adapter (LibTorch: memory_tracer.h) and one call of start_watching(); without these
// only the process's own memory is known. Nothing here throws or stops the program. 1 MB is 1024 x
// 1024 bytes. Link plimsoll::monitor.
#pragma once

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

// Counts live tensors from now on, without a trace file. Does nothing if it already runs.
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
  // The most that tensors held on each device since the span began, by its name ("cpu", "cuda:0");
  // without the devices of which it is unknown.
  std::map<std::string, std::uint64_t> peaks() const;

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

// ---- point-in-time measurements and blocks ----------------------------------------------------
// docs/monitoring.md shows the printed lines. Without a GPU, "CPU tensors" takes the place of
// "GPU".

// Receives each line, without a newline.
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

// Records named checkpoints; the summary shows each one and the change since the one before.
class MemoryTracker {
 public:
  explicit MemoryTracker(LinePrinter print = print_to_stdout) : print_(std::move(print)) {}
  void record(std::string name);
  void print_summary() const;
  const std::vector<MemoryCheckpoint>& checkpoints() const { return checkpoints_; }

 private:
  LinePrinter print_;
  std::vector<MemoryCheckpoint> checkpoints_;
};

// What a block did to memory.
struct BlockMemory {
  MemoryUsage before;
  MemoryUsage after;                           // with the peaks of the block
  std::map<std::string, std::uint64_t> peaks;  // as of PeakSpan

  // The most that tensors held inside the block: on accelerators, or in host memory without one.
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

// A loss, read only when its line is printed: reading a tensor waits for the device.
using Loss = std::function<std::optional<double>()>;
inline Loss no_loss() { return {}; }
inline Loss known_loss(double value) {
  return [value] { return std::optional<double>(value); };
}

enum class Monitoring : std::uint8_t { kOff, kOn };

// Prints a banner when constructed, a line for each of the first batches of an epoch, and a line
// with the peak at its end. With kOff it prints nothing.
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

// For optimizers that evaluate a loss function themselves, such as L-BFGS: lines for the first loss
// evaluations, then memory and the peak at the end. "Iteration N" is the Nth evaluation.
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

// Shows where memory goes within a batch: named checkpoints and the change between them.
class BatchMemoryProfiler {
 public:
  explicit BatchMemoryProfiler(Monitoring monitoring = Monitoring::kOn,
                               LinePrinter print = print_to_stdout);
  void checkpoint(std::string name);
  void print_summary() const;
  void reset();    // discards the checkpoints
  void disable();  // from now on every method does nothing

 private:
  Monitoring monitoring_;
  LinePrinter print_;
  std::vector<MemoryCheckpoint> checkpoints_;
};

}  // namespace plimsoll
