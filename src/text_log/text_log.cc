#include "text_log/text_log.h"
#include "text_log/format.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/quiet_writing.h"
#include "base/timestamps.h"
#include "plimsoll/process_rank.h"
#include "sample/names.h"
#include "sample/sample_fields.h"

namespace plimsoll::text_log {
namespace {

constexpr std::string_view kZero = "0.000 MB";  // parts that print as this are left out

// A name from elsewhere, without the separators of the log.
std::string word(std::string_view text) {
  if (text.empty()) return "-";
  std::string clean = sample::one_line(text);
  std::ranges::replace(clean, ',', ';');
  std::ranges::replace(clean, '|', '/');
  return clean;
}

// The same for a line that is only split at bars: "[64, 3, 7, 7]" is unchanged.
std::string cell(std::string_view text) {
  if (text.empty()) return "-";
  std::string clean = sample::one_line(text);
  std::ranges::replace(clean, '|', '/');
  return clean;
}

std::string number_text(double value, const char* format) {
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string percent_text(double percent) { return number_text(percent, "%.1f%%"); }

class Snapshot {
 public:
  explicit Snapshot(const TextLogOptions& options) : options_(options) {}

  void line(std::string_view key, const std::string& value) {
    text_ += key;
    text_ += ": " + value + "\n";
  }
  void mb_line(std::string_view key, const std::optional<std::uint64_t>& bytes) {
    if (bytes) line(key, sample::mb_text(*bytes));
  }
  void begin(const MemorySample& sample);
  void add_device(const DeviceMemory& device, std::uint64_t large_tensor_bytes);
  void add_cpu_alongside(const DeviceMemory& cpu);
  void add_host(const HostMemory& host);

  std::string take() { return std::move(text_) + "\n"; }

 private:
  void add_shares(std::string_view key, const std::vector<MemoryShare>& shares,
                  std::optional<std::size_t> most = {});
  void add_by_hand(const sample::Uses& uses, const DeviceMemory& device,
                   std::uint64_t large_tensor_bytes);
  void add_sizes(std::string_view key, const std::vector<MemoryShare>& shares,
                 std::string (*size_text)(std::uint64_t));
  void add_tensor(const LiveTensor& tensor);
  std::span<const LiveTensor> first_of(const std::vector<LiveTensor>& tensors) const {
    return std::span(tensors).first(std::min(tensors.size(), options_.top_large_tensors));
  }
  void add_bar(std::string_view key, const DeviceBar& bar);
  void add_large_tensors(std::string_view key, const DeviceMemory& device,
                         std::uint64_t large_tensor_bytes);

  const TextLogOptions& options_;
  std::string text_;
};

void Snapshot::begin(const MemorySample& sample) {
  text_ =
      "=== Iteration " + std::to_string(sample.iteration) + " | " + base::utc_text(sample.time_ns);
  if (sample.loss) text_ += " | loss " + number_text(*sample.loss, "%.6g");
  if (sample.batch_size) text_ += " | batch " + std::to_string(*sample.batch_size);
  if (sample.ran_out) text_ += std::string(" | ") + kRanOut;
  if (sample.ran_out && !sample.ran_out_of.empty()) text_ += kRanOutOf + sample.ran_out_of;
  text_ += " ===\n";
}

// Adds the first shares, and all others combined into one. Those without memory are left out.
void Snapshot::add_shares(std::string_view key, const std::vector<MemoryShare>& shares,
                          std::optional<std::size_t> most) {
  MemoryShare rest{std::string(sample::kRest)};
  std::string list;
  const auto add = [&list](const MemoryShare& share, const std::string& name) {
    list += (list.empty() ? "" : ", ") + name + " " + sample::mb_text(share.size_bytes) + " in " +
            std::to_string(share.count);
  };
  std::size_t named = 0;
  for (const MemoryShare& share : shares) {
    if (sample::mb_text(share.size_bytes) != kZero && (!most || named < *most)) {
      ++named;
      add(share, word(share.name));
    } else {
      rest.size_bytes += share.size_bytes;
      rest.count += share.count;
    }
  }
  if (sample::mb_text(rest.size_bytes) != kZero && named > 0) add(rest, rest.name);
  if (!list.empty()) line(key, list);
}

void Snapshot::add_sizes(std::string_view key, const std::vector<MemoryShare>& shares,
                         std::string (*size_text)(std::uint64_t)) {
  std::string list;
  for (const MemoryShare& share : shares) {
    const std::string size = size_text(share.size_bytes);
    if (size == kZero) continue;
    list += (list.empty() ? "" : ", ") + word(share.name) + " " + size;
  }
  if (!list.empty()) line(key, list);
}

void Snapshot::add_tensor(const LiveTensor& tensor) {
  text_ += sample::mb_text(tensor.size_bytes) + " | " + cell(tensor.shape) + " | " +
           cell(tensor.dtype) + " | " + cell(tensor.category) + " | " + cell(tensor.layer) + " | " +
           cell(tensor.name) + "\n";
}

void Snapshot::add_bar(std::string_view key, const DeviceBar& bar) {
  std::string list;
  for (const DevicePart& part : bar.parts) {
    if (sample::mb_text(static_cast<std::uint64_t>(std::abs(part.size_bytes))) == kZero) continue;
    list += (list.empty() ? "" : ", ") + part.kind;
    if (part.pid != 0) list += " " + std::to_string(part.pid);
    const auto bytes = static_cast<std::uint64_t>(part.size_bytes);
    list += part.size_bytes < 0 ? " -" + sample::mb_text(0 - bytes) : " " + sample::mb_text(bytes);
  }
  if (!list.empty()) line(key, list);
}

void Snapshot::add_large_tensors(std::string_view key, const DeviceMemory& device,
                                 std::uint64_t large_tensor_bytes) {
  line(key, std::to_string(device.large_count) + " in " + sample::mb_text(device.large_bytes) +
                ", each above " + sample::mb_text(large_tensor_bytes));
  for (const LiveTensor& tensor : first_of(device.large_tensors)) {
    text_ += "  ";
    add_tensor(tensor);
  }
}

void Snapshot::add_by_hand(const sample::Uses& uses, const DeviceMemory& device,
                           std::uint64_t large_tensor_bytes) {
  const bool has_tensors = !device.categories.empty();
  switch (uses.log) {
    case sample::LogForm::kAllocated:
      if (!sample::is_cpu(device.name)) return mb_line(uses.log_key, device.allocated_bytes);
      if (has_tensors) mb_line(uses.log_key, device.live_bytes);
      return;
    case sample::LogForm::kSizes:
      return add_sizes(uses.log_key, device.at_peak, sample::mb_text);
    case sample::LogForm::kExactSizes:
      return add_sizes(uses.log_key, device.growing, sample::exact_mb_text);
    case sample::LogForm::kWord:
      if (!device.peak_phase.empty()) line(uses.log_key, word(device.peak_phase));
      return;
    case sample::LogForm::kEachTensor:
      for (const LiveTensor& tensor : first_of(device.peak_tensors)) {
        text_ += std::string(uses.log_key) + ": ";
        add_tensor(tensor);
      }
      return;
    case sample::LogForm::kUsed:
      if (!device.used_bytes) return;
      return line(uses.log_key,
                  sample::mb_text(*device.used_bytes) +
                      (device.total_bytes ? " of " + sample::mb_text(*device.total_bytes) : ""));
    case sample::LogForm::kBar:
      if (device.bar) add_bar(uses.log_key, *device.bar);
      return;
    case sample::LogForm::kTensors:
      if (!has_tensors) return;
      return line(uses.log_key,
                  std::to_string(device.live_count) + " in " + sample::mb_text(device.live_bytes));
    case sample::LogForm::kLarge:
      if (has_tensors) add_large_tensors(uses.log_key, device, large_tensor_bytes);
      return;
    default:
      return;
  }
}

void Snapshot::add_device(const DeviceMemory& device, std::uint64_t large_tensor_bytes) {
  line(kDeviceKey, word(device.name));
  sample::for_each_figure<DeviceMemory>([&](const auto& field) {
    const sample::Uses& uses = field.uses;
    const auto& value = field.of(device);
    using Type = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Type, std::optional<std::uint64_t>>) {
      if (uses.log == sample::LogForm::kSize) return mb_line(uses.log_key, value);
      if (uses.log == sample::LogForm::kExactSize && value)
        return line(uses.log_key, sample::exact_mb_text(*value));
    } else if constexpr (std::is_same_v<Type, std::optional<double>>) {
      if (uses.log == sample::LogForm::kPercent && value)
        return line(uses.log_key, percent_text(*value));
    } else if constexpr (std::is_same_v<Type, std::vector<MemoryShare>>) {
      if (uses.log == sample::LogForm::kShares) return add_shares(uses.log_key, value);
      if (uses.log == sample::LogForm::kLargestShares) {
        const std::size_t least = &value == &device.layers ? 1 : 0;
        return add_shares(uses.log_key, value, std::max(options_.top_layers, least));
      }
    }
    add_by_hand(uses, device, large_tensor_bytes);
  });
}

// If there is an accelerator, "Allocated:" must refer to it alone.
void Snapshot::add_cpu_alongside(const DeviceMemory& cpu) {
  if (cpu.categories.empty()) return;
  line("CPU tensors", std::to_string(cpu.live_count) + " in " + sample::mb_text(cpu.live_bytes));
  add_shares("CPU categories", cpu.categories);
}

void Snapshot::add_host(const HostMemory& host) {
  std::string parts;
  const auto add = [&parts](const std::string& part) {
    parts += (parts.empty() ? "" : ", ") + part;
  };
  if (host.rss_bytes) add("process " + sample::mb_text(*host.rss_bytes));
  if (host.workers_bytes) {
    add("workers " + sample::mb_text(*host.workers_bytes) + " in " +
        std::to_string(host.worker_count));
  }
  if (host.used_bytes) {
    add("used " + sample::mb_text(*host.used_bytes) +
        (host.total_bytes ? " of " + sample::mb_text(*host.total_bytes) : ""));
  }
  if (host.cpu_percent) add("cpu " + percent_text(*host.cpu_percent));
  if (!parts.empty()) line("Host", parts);
}

}  // namespace

std::string text_log_header(std::int64_t time_ns) {
  std::string header = std::string(kTextLogMagic) + " 1. MB are 1024 x 1024 bytes.\n# " +
                       sample::host_name() + " | process " + std::to_string(::getpid()) + " | " +
                       base::utc_text(time_ns);
  if (const auto place = process_rank()) {
    header += " | rank " + std::to_string(place->rank) + " of " + std::to_string(place->world_size);
  }
  return header +
         "\n# -: unknown; a tensor that was freed before a sample has no shape, dtype or name."
         "\n# Summarize it with: plimsoll analyze FILE\n\n";
}

namespace {

std::string snapshot_of(const MemorySample& sample, const TextLogOptions& options) {
  Snapshot snapshot(options);
  snapshot.begin(sample);
  const bool has_accelerator = std::ranges::any_of(
      sample.devices, [](const DeviceMemory& device) { return !sample::is_cpu(device.name); });
  for (const DeviceMemory& device : sample.devices) {
    if (has_accelerator && sample::is_cpu(device.name)) continue;
    snapshot.add_device(device, sample.large_tensor_bytes);
  }
  for (const DeviceMemory& device : sample.devices) {
    if (has_accelerator && sample::is_cpu(device.name)) snapshot.add_cpu_alongside(device);
  }
  snapshot.add_host(sample.host);
  return snapshot.take();
}

}  // namespace

std::string text_log_snapshot(const MemorySample& sample, const TextLogOptions& options) {
  const auto accelerators = static_cast<std::size_t>(std::ranges::count_if(
      sample.devices, [](const auto& each) { return !sample::is_cpu(each.name); }));
  const std::size_t most = options.most_bytes * std::max<std::size_t>(accelerators, 1);
  TextLogOptions fitting = options;
  std::size_t& layers = fitting.top_layers;
  std::size_t& tensors = fitting.top_large_tensors;
  std::string text = snapshot_of(sample, fitting);
  while (text.size() > most && (layers > 0 || tensors > 1)) {
    std::size_t& longer =
        layers > std::max<std::size_t>(1, 2 * tensors) || tensors <= 1 ? layers : tensors;
    longer -= std::max<std::size_t>(1, longer / 8);
    text = snapshot_of(sample, fitting);
  }
  return text;
}

Status append_text_log(const std::string& path, const MemorySample& sample,
                       const TextLogOptions& options) {
  const auto failed = [&path] {
    const bool is_denied = errno == EACCES || errno == EPERM || errno == EROFS;
    return make_error(is_denied ? ErrorCode::kPermission : ErrorCode::kIo,
                      "cannot write " + path + ": " + std::strerror(errno));
  };
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;  // opening the file reports the error
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  const base::QuietWriting quiet;
  std::FILE* const file = std::fopen(path.c_str(), "ab");
  if (file == nullptr) return failed();
  const bool is_new = std::ftell(file) == 0;
  const std::string text =
      (is_new ? text_log_header(sample.time_ns) : "") + text_log_snapshot(sample, options);
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !is_written) return failed();
  return {};
}

Status TextLog::create(const std::string& output_dir, const TextLogOptions& options) {
  options_ = options;
  process_ = ::getpid();
  const std::int64_t time_ns = base::now_ns();
  PLIMSOLL_TRY(file_.create(
      rank_folder((std::filesystem::path(output_dir) / kProfilesFolder).string()),
      std::string(kTextLogPrefix) + base::local_stamp(time_ns), std::string(kTextLogSuffix)));
  return file_.write(text_log_header(time_ns));
}

Status TextLog::write(const MemorySample& sample) {
  if (!is_open()) return {};
  is_empty_ = false;
  return file_.write(text_log_snapshot(sample, options_));
}

void TextLog::close() {
  if (is_open() && is_empty_ && process_ == ::getpid()) ::unlink(path().c_str());
  file_.close();
}

}  // namespace plimsoll::text_log
