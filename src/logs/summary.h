// What `plimsoll analyze` says of a log: how each figure went from the start to the end, what held
// the memory at the end, and the findings. Filled sample by sample; no sample is kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
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

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"path", &LogSource::path, "The file."},
        Field{"format", &LogSource::format, "plimsoll_text_log or nvidia_smi_csv."},
        Field{"bytes", &LogSource::bytes, "Its size."},
        Field{"snapshots", &LogSource::snapshots, "Samples that were read."},
        Field{"cut_snapshots", &LogSource::cut_snapshots, "That were begun and not ended."},
        Field{"unread_lines", &LogSource::unread_lines, "Lines that mean nothing to us."}};
  }
};

// A figure over the samples; null where it was never told. Bytes, counts or percent.
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
    return std::tuple{
        Field{"name", &Figure::name,
              "That of the sample's field, or non_pytorch_bytes (what is used and not reserved by "
              "PyTorch), fragmentation_percent, tensors, tensor_bytes, large_tensors, "
              "large_tensor_bytes; of the host process_bytes, used_bytes, cpu_percent; or loss."},
        Field{"start", &Figure::start, "In the first sample that has it."},
        Field{"end", &Figure::end, "In the last one."},
        Field{"least", &Figure::least, "Of all."},
        Field{"most", &Figure::most, "Of all."},
        Field{"most_iteration", &Figure::most_iteration, "Where that was first."}};
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
    return std::tuple{
        Field{"name", &ShareSummary::name, "The category, dtype or layer; empty for none."},
        Field{"start_bytes", &ShareSummary::start_bytes,
              "In the device's first sample; null: not named there, maybe one of the rest."},
        Field{"end_bytes", &ShareSummary::end_bytes, "In its last one."},
        Field{"end_count", &ShareSummary::end_count, "Allocations then."},
        Field{"end_share", &ShareSummary::end_share, "Of its live tensors then, 0 to 1."}};
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
    return std::tuple{
        Field{"size_bytes", &LargeTensorSummary::size_bytes, "Its storage."},
        Field{"shape", &LargeTensorSummary::shape, "[64, 3, 7, 7]; empty: not known."},
        Field{"dtype", &LargeTensorSummary::dtype, "float32; empty: not known."},
        Field{"category", &LargeTensorSummary::category, "What it is for."},
        Field{"layer", &LargeTensorSummary::layer, "That made it; empty: none."},
        Field{"name", &LargeTensorSummary::name, "Of a parameter or buffer; empty: none."}};
  }
};

struct DeviceSummary {
  std::string device;
  std::optional<std::uint64_t> total_bytes;
  std::optional<std::uint64_t> large_tensor_bytes;
  std::vector<Figure> figures;
  std::vector<ShareSummary> categories;
  std::vector<ShareSummary> dtypes;
  std::vector<ShareSummary> layers;
  std::vector<LargeTensorSummary> large_tensors;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"device", &DeviceSummary::device, "cuda:0, cpu; gpu:0 of nvidia-smi."},
        Field{"total_bytes", &DeviceSummary::total_bytes, "What the device has."},
        Field{"large_tensor_bytes", &DeviceSummary::large_tensor_bytes,
              "The size above which its tensors are large; null where none are counted."},
        Field{"figures", &DeviceSummary::figures, "The figures that were recorded."},
        Field{"categories", &DeviceSummary::categories, "Largest at the end first."},
        Field{"dtypes", &DeviceSummary::dtypes, "The same."},
        Field{"layers", &DeviceSummary::layers, "The same; those that the log names."},
        Field{"large_tensors", &DeviceSummary::large_tensors, "Alive at the end, largest first."}};
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
  std::vector<alerts::Alert> findings;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"schema_version", &LogSummary::schema_version, "Grows when a field changes."},
        Field{"source", &LogSummary::source, "The file."},
        Field{"first_iteration", &LogSummary::first_iteration,
              "Of the first sample; of nvidia-smi its number."},
        Field{"last_iteration", &LogSummary::last_iteration, "Of the last sample."},
        Field{"first_time_ns", &LogSummary::first_time_ns, "Since 1970."},
        Field{"last_time_ns", &LogSummary::last_time_ns, "Since 1970."},
        Field{"devices", &LogSummary::devices, "Each device that any sample tells."},
        Field{"host", &LogSummary::host, "Figures of the machine."},
        Field{"training", &LogSummary::training, "The loss, where it was recorded."},
        Field{"jumps", &LogSummary::jumps, "Of memory and loss."},
        Field{"findings", &LogSummary::findings, "Gravest first."}};
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
    std::vector<MemoryShare> first_categories, first_dtypes, first_layers;
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
  std::vector<Device> devices_;  // in the order they were met
  std::map<std::string, std::size_t> numbers_;
};

// Reads the log and sums it up.
Result<LogSummary> summarize_log(const std::string& path, const LogProgress& progress = {});

}  // namespace plimsoll::logs
