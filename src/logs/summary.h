// The summary of a log by `plimsoll analyze`: how each figure changed from start to end, what
// filled memory at the end, and the findings. Updated sample by sample; no sample is stored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alerts/detection.h"
#include "base/fields.h"
#include "logs/reader.h"
#include "plimsoll/memory_sample.h"

namespace plimsoll::logs {

struct LogSource {
  std::string path;
  std::string format;
  std::uint64_t bytes = 0;
  std::uint64_t snapshots = 0;
  std::uint64_t cut_snapshots = 0;
  std::uint64_t unread_lines = 0;
  std::uint64_t runs = 0;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"path", &LogSource::path, "Path of the file."},
        Field{"format", &LogSource::format,
              "plimsoll_text_log, nvidia_smi_csv, deepspeed_log or printed_log; messages: a log "
              "without figures of memory, but with messages about it."},
        Field{"bytes", &LogSource::bytes, "Size of the file in bytes."},
        Field{"snapshots", &LogSource::snapshots, "Number of complete samples of the run."},
        Field{"cut_snapshots", &LogSource::cut_snapshots,
              "Number of incomplete samples, which are left out."},
        Field{"unread_lines", &LogSource::unread_lines,
              "Number of lines that were not recognized."},
        Field{
            "runs", &LogSource::runs,
            "Number of runs in the file; the last one is summarized. A header or a lower iteration "
            "begins a run."});
  }
};

// A figure over the samples; null if it was never reported. Bytes, counts or percent.
struct Figure {
  std::string name;
  std::optional<double> start;
  std::optional<double> end;
  std::optional<double> least;
  std::optional<double> most;
  std::optional<std::int64_t> most_iteration;

  void add(double value, std::int64_t iteration);

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"name", &Figure::name,
              "Name of the sample's field, or non_pytorch_bytes (used but not reserved by "
              "PyTorch), fragmentation_percent, tensors, tensor_bytes, large_tensors, "
              "large_tensor_bytes; for the host process_bytes, workers_bytes, used_bytes, "
              "cpu_percent; or loss."},
        Field{"start", &Figure::start, "Value in the first sample that has it."},
        Field{"end", &Figure::end, "Value in the last sample that has it."},
        Field{"min", &Figure::least, "Smallest value."},
        Field{"max", &Figure::most, "Largest value."},
        Field{"max_iteration", &Figure::most_iteration,
              "Iteration of the first sample with the largest value."});
  }
};

struct ShareSummary {
  std::string name;
  std::optional<std::uint64_t> start_bytes;
  std::uint64_t end_bytes = 0;
  std::uint64_t end_count = 0;
  double end_share = 0;  // of the device's live tensors, 0 to 1

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"name", &ShareSummary::name,
              "The category, dtype or layer; empty if the tensors have none."},
        Field{"start_bytes", &ShareSummary::start_bytes,
              "Bytes in the device's first sample; null if not listed there (it may be part of the "
              "rest)."},
        Field{"end_bytes", &ShareSummary::end_bytes, "Bytes in the device's last sample."},
        Field{"end_count", &ShareSummary::end_count, "Number of allocations in the last sample."},
        Field{"end_share", &ShareSummary::end_share,
              "Share of the device's live tensors in the last sample, 0 to 1."});
  }
};

struct LargeTensorSummary {
  std::uint64_t size_bytes = 0;
  std::string shape;
  std::string dtype;
  std::string category;
  std::string layer;
  std::string name;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"size_bytes", &LargeTensorSummary::size_bytes, "Size of the storage in bytes."},
        Field{"shape", &LargeTensorSummary::shape,
              "Shape, such as [64, 3, 7, 7]; empty if unknown."},
        Field{"dtype", &LargeTensorSummary::dtype, "Such as float32; empty if unknown."},
        Field{"category", &LargeTensorSummary::category, "Category of the memory."},
        Field{"layer", &LargeTensorSummary::layer, "Layer that created the tensor; empty if none."},
        Field{"name", &LargeTensorSummary::name,
              "Name of the parameter or buffer; empty for other tensors."});
  }
};

// A part of a peak.
struct PeakShare {
  std::string name;
  std::uint64_t bytes = 0;
  double share = 0;  // 0 to 1

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"name", &PeakShare::name, "The category."},
        Field{"bytes", &PeakShare::bytes, "Bytes of it that were live at the peak."},
        Field{"share", &PeakShare::share, "Share of the peak, 0 to 1."});
  }
};

// The highest peak whose parts are known.
struct PeakSummary {
  std::int64_t iteration = 0;
  std::uint64_t bytes = 0;
  std::string phase;
  std::vector<PeakShare> categories;
  std::vector<LargeTensorSummary> tensors;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"iteration", &PeakSummary::iteration,
              "Iteration of the sample; the peak was between the previous sample and this one."},
        Field{"bytes", &PeakSummary::bytes, "Bytes live at the peak."},
        Field{"phase", &PeakSummary::phase,
              "Phase of the allocation that made the peak; empty if unknown."},
        Field{"categories", &PeakSummary::categories,
              "What was live at the peak by category, largest first; they sum to bytes, up to the "
              "rounding of the log."},
        Field{"tensors", &PeakSummary::tensors, "The largest tensors live at the peak."});
  }
};

struct DeviceSummary {
  std::string device;
  std::uint64_t snapshots = 0;
  std::optional<std::uint64_t> total_bytes;
  std::optional<std::uint64_t> large_tensor_bytes;
  std::vector<Figure> figures;
  std::vector<ShareSummary> categories;
  std::vector<ShareSummary> dtypes;
  std::vector<ShareSummary> layers;
  std::vector<ShareSummary> components;
  std::vector<LargeTensorSummary> large_tensors;
  std::optional<PeakSummary> peak;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &DeviceSummary::device,
              "Such as cuda:0 or cpu; gpu:0 in a log of nvidia-smi; rank 3 of a log that several "
              "processes print into."},
        Field{"snapshots", &DeviceSummary::snapshots, "Number of samples that have the device."},
        Field{"total_bytes", &DeviceSummary::total_bytes, "Capacity of the device."},
        Field{"large_tensor_bytes", &DeviceSummary::large_tensor_bytes,
              "Size above which tensors count as large; null if they are not counted."},
        Field{"figures", &DeviceSummary::figures, "The recorded figures."},
        Field{"categories", &DeviceSummary::categories,
              "Bytes by category, largest at the end first."},
        Field{"dtypes", &DeviceSummary::dtypes, "Bytes by dtype, largest at the end first."},
        Field{"layers", &DeviceSummary::layers,
              "Bytes of the layers that the log lists, largest at the end first."},
        Field{
            "components", &DeviceSummary::components,
            "Bytes of parameters that no layer owns, by name and role, largest at the end first."},
        Field{"large_tensors", &DeviceSummary::large_tensors,
              "Large tensors live at the end, largest first."},
        Field{"peak", &DeviceSummary::peak,
              "What the highest peak was made of; null if the log does not state it."});
  }
};

struct LogSummary {
  std::uint64_t schema_version = 1;
  LogSource source;
  std::optional<std::int64_t> first_iteration;
  std::optional<std::int64_t> last_iteration;
  std::optional<std::int64_t> first_time_ns;
  std::optional<std::int64_t> last_time_ns;
  std::vector<DeviceSummary> devices;
  std::vector<Figure> host;
  std::vector<Figure> training;
  alerts::JumpCounts jumps;
  std::vector<MemoryAlert> findings;
  std::string step = {};       // what the number of a sample counts
  bool is_of_program = false;  // LogContents::is_of_program

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"schema_version", &LogSummary::schema_version,
              "Version of this schema; increases when a field changes."},
        Field{"source", &LogSummary::source, "Path of the file."},
        Field{"first_iteration", &LogSummary::first_iteration,
              "Iteration of the first sample; in a log of nvidia-smi the number of the sample."},
        Field{"last_iteration", &LogSummary::last_iteration, "Iteration of the last sample."},
        Field{"first_time_ns", &LogSummary::first_time_ns, "Time since the Unix epoch."},
        Field{"last_time_ns", &LogSummary::last_time_ns, "Time since the Unix epoch."},
        Field{"devices", &LogSummary::devices, "Each device in any sample."},
        Field{"host", &LogSummary::host, "Figures of the machine."},
        Field{"training", &LogSummary::training, "The loss, if it was recorded."},
        Field{"jumps", &LogSummary::jumps, "Number of jumps of memory and of the loss."},
        Field{"findings", &LogSummary::findings, "Findings, most severe first."});
  }
};

class LogSummarizer {
 public:
  explicit LogSummarizer(const alerts::DetectionOptions& options)
      : options_(options), detector_(options) {}

  void add(const MemorySample& sample);
  LogSummary finish(const std::string& path, const LogContents& contents);

 private:
  struct Device {
    DeviceSummary summary;
    std::vector<MemoryShare> first_categories, first_dtypes, first_layers, first_components;
    DeviceMemory last;
    // The allocator's figures at the end, and the highest peak.
    DeviceMemory allocator;
    std::int64_t allocator_iteration = 0;
    std::optional<std::uint64_t> highest_peak_bytes;
  };
  void add_device(const DeviceMemory& device, const MemorySample& sample);

  alerts::DetectionOptions options_;

  alerts::Detector detector_;
  LogSummary summary_;
  std::uint64_t samples_ = 0;
  std::vector<Device> devices_;  // in order of first appearance
  std::map<std::string, std::size_t> numbers_;
};

// Reads the log and summarizes its last run.
Result<LogSummary> summarize_log(const std::string& path, const LogProgress& progress = {});

}  // namespace plimsoll::logs
