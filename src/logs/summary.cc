#include "logs/summary.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "alerts/fragmentation_note.h"
#include "sample/names.h"
#include "sample/sample_fields.h"

namespace plimsoll::logs {
namespace {

constexpr std::size_t kMostSummaryDevices = 256;  // a hostile log may name more

void note(std::vector<Figure>& figures, std::string_view name, double value,
          std::int64_t iteration) {
  auto figure = std::ranges::find(figures, name, &Figure::name);
  if (figure == figures.end()) {
    figures.emplace_back().name = std::string(name);
    figure = figures.end() - 1;
  }
  figure->add(value, iteration);
}

void note(std::vector<Figure>& figures, std::string_view name,
          const std::optional<std::uint64_t>& bytes, std::int64_t iteration) {
  if (bytes) note(figures, name, static_cast<double>(*bytes), iteration);
}

template <typename Owner>
void note_figures(std::vector<Figure>& figures, const Owner& owner, std::int64_t iteration) {
  sample::for_each_figure<Owner>([&](const auto& figure) {
    if (figure.uses.figure == nullptr) return;
    if (const auto value = sample::figure_value(figure, owner)) {
      note(figures, figure.uses.figure, *value, iteration);
    }
  });
}

std::vector<ShareSummary> compared(const std::vector<MemoryShare>& first,
                                   const std::vector<MemoryShare>& last, std::uint64_t live_bytes) {
  // Shares missing from the first sample were absent, unless that sample lists only the largest
  // ones.
  const bool names_all = std::ranges::find(first, sample::kRest, &MemoryShare::name) == first.end();
  std::map<std::string_view, ShareSummary> by_name;
  for (const MemoryShare& share : last) {
    by_name[share.name].end_bytes += share.size_bytes;
    by_name[share.name].end_count += share.count;
    if (names_all) by_name[share.name].start_bytes = 0;
  }
  for (const MemoryShare& share : first) {
    ShareSummary& summary = by_name[share.name];
    summary.start_bytes = summary.start_bytes.value_or(0) + share.size_bytes;
  }
  std::vector<ShareSummary> shares;
  for (auto& [name, share] : by_name) {
    share.name = name;
    if (live_bytes > 0) {
      share.end_share = static_cast<double>(share.end_bytes) / static_cast<double>(live_bytes);
    }
    shares.push_back(std::move(share));
  }
  std::ranges::sort(shares, [](const ShareSummary& a, const ShareSummary& b) {
    const bool a_is_rest = a.name == sample::kRest;
    if (a_is_rest != (b.name == sample::kRest)) return !a_is_rest;
    return a.end_bytes != b.end_bytes ? a.end_bytes > b.end_bytes : a.name < b.name;
  });
  return shares;
}

LargeTensorSummary summary_of(const LiveTensor& tensor) {
  return {tensor.size_bytes, tensor.shape, tensor.dtype,
          tensor.category,   tensor.layer, tensor.name};
}

void note_peak(std::optional<PeakSummary>& highest, const DeviceMemory& device,
               std::int64_t iteration) {
  if (!device.peak_bytes || device.at_peak.empty()) return;
  if (highest && *device.peak_bytes <= highest->bytes) return;
  highest = PeakSummary{iteration, *device.peak_bytes, device.peak_phase, {}, {}};
  for (const MemoryShare& share : device.at_peak) {
    const double part = static_cast<double>(share.size_bytes) /
                        static_cast<double>(std::max<std::uint64_t>(*device.peak_bytes, 1));
    highest->categories.push_back({share.name, share.size_bytes, part});
  }
  for (const LiveTensor& tensor : device.peak_tensors) {
    highest->tensors.push_back(summary_of(tensor));
  }
}

}  // namespace

void Figure::add(double value, std::int64_t iteration) {
  if (!start) start = value;
  end = value;
  if (std::isnan(value)) return;
  if (!least || value < *least) least = value;
  if (most && value <= *most) return;
  most = value;
  most_iteration = iteration;
}

void LogSummarizer::add_device(const DeviceMemory& device, const MemorySample& sample) {
  const std::int64_t iteration = sample.iteration;
  const auto [number, is_new] = numbers_.try_emplace(device.name, devices_.size());
  if (is_new) devices_.emplace_back().summary.device = device.name;
  Device& known = devices_[number->second];
  ++known.summary.snapshots;
  std::vector<Figure>& figures = known.summary.figures;
  const bool has_tensors = !device.categories.empty();
  if (device.total_bytes) known.summary.total_bytes = device.total_bytes;
  note_figures(figures, device, iteration);
  if (device.allocated_bytes && device.reserved_bytes) {
    known.allocator.name = device.name;
    known.allocator.allocated_bytes = device.allocated_bytes;
    known.allocator.reserved_bytes = device.reserved_bytes;
    known.allocator_iteration = iteration;
  }
  if (device.peak_bytes) {
    known.highest_peak_bytes = std::max(known.highest_peak_bytes.value_or(0), *device.peak_bytes);
  }
  note_peak(known.summary.peak, device, iteration);
  if (!has_tensors) return;
  if (device.live_count > 0) {
    note(figures, "tensors", std::optional(device.live_count), iteration);
  }
  note(figures, "tensor_bytes", std::optional(device.live_bytes), iteration);
  if (known.first_categories.empty()) {
    known.first_categories = device.categories;
    known.first_dtypes = device.dtypes;
    known.first_layers = device.layers;
    known.first_components = device.components;
  }
  known.last = device;
  // A text log has no further details about the CPU if there is a GPU.
  if (device.dtypes.empty() && device.large_count == 0) return;
  if (sample.large_tensor_bytes == 0 && device.large_count == 0)
    return;  // the log has no such line
  known.summary.large_tensor_bytes = sample.large_tensor_bytes;
  note(figures, "large_tensors", std::optional(device.large_count), iteration);
  if (device.large_count == 0 || device.large_bytes > 0) {  // other tools log only the count
    note(figures, "large_tensor_bytes", std::optional(device.large_bytes), iteration);
  }
}

void LogSummarizer::add(const MemorySample& sample) {
  ++samples_;
  const std::int64_t iteration = sample.iteration;
  if (!summary_.first_iteration) summary_.first_iteration = iteration;
  summary_.last_iteration = iteration;
  if (sample.time_ns != 0) {
    if (!summary_.first_time_ns) summary_.first_time_ns = sample.time_ns;
    summary_.last_time_ns = sample.time_ns;
  }
  for (const DeviceMemory& device : sample.devices) {
    if (devices_.size() < kMostSummaryDevices || numbers_.contains(device.name)) {
      add_device(device, sample);
    }
  }
  note_figures(summary_.host, sample.host, iteration);
  if (sample.loss) note(summary_.training, "loss", *sample.loss, iteration);
  static_cast<void>(detector_.observe(sample));
}

LogSummary LogSummarizer::finish(const std::string& path, const LogContents& contents) {
  summary_.source = {path,         to_string(contents.format), contents.bytes,
                     samples_,     contents.cut_snapshots,     contents.unread_lines,
                     contents.runs};
  for (Device& device : devices_) {
    DeviceSummary& summary = device.summary;
    const DeviceMemory& last = device.last;
    summary.categories = compared(device.first_categories, last.categories, last.live_bytes);
    summary.dtypes = compared(device.first_dtypes, last.dtypes, last.live_bytes);
    summary.layers = compared(device.first_layers, last.layers, last.live_bytes);
    summary.components = compared(device.first_components, last.components, last.live_bytes);
    for (const LiveTensor& tensor : last.large_tensors) {
      summary.large_tensors.push_back(summary_of(tensor));
    }
    summary_.devices.push_back(std::move(summary));
  }
  summary_.step = step_name(contents.format);
  summary_.is_of_program = contents.is_of_program;
  summary_.jumps = detector_.jumps();
  summary_.findings = detector_.findings();
  for (const Device& device : devices_) {
    alerts::add_fragmentation_note(device.allocator, device.allocator_iteration,
                                   device.highest_peak_bytes, options_, summary_.findings);
  }
  return std::move(summary_);
}

Result<LogSummary> summarize_log(const std::string& path, const LogProgress& progress) {
  std::optional<LogSummarizer> summarizer;  // of the newest run
  std::uint64_t run = 0;
  const auto take = [&](const SamplePlace& place, const MemorySample& sample) {
    if (std::exchange(run, place.run) != place.run) {
      alerts::DetectionOptions options;
      options.step = step_name(place.format);
      summarizer.emplace(options);
    }
    summarizer->add(sample);
  };
  PLIMSOLL_TRY_ASSIGN(const LogContents contents, read_log(path, take, progress));
  if (!summarizer) return make_error(ErrorCode::kCorrupt, path + " has no samples");
  return summarizer->finish(path, contents);
}

}  // namespace plimsoll::logs
