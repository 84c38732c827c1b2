#include "logs/text_log_reader.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/timestamps.h"
#include "logs/labelled.h"
#include "logs/numbers.h"
#include "sample/names.h"
#include "sample/sample_fields.h"
#include "text_log/format.h"

namespace plimsoll::logs {
namespace {

constexpr std::string_view kBegin = "=== Iteration ";
constexpr std::string_view kEnd = " ===";
// The second is from logs written before 100.0 MB itself ceased to count as large.
constexpr std::array<std::string_view, 2> kThresholds = {", each above ", ", each at least "};
constexpr std::uint64_t kFormat = 1;
// More than any of our logs has; other logs may have more.
constexpr std::size_t kMostLogDevices = 128;
constexpr std::size_t kMostShares = 256;
constexpr std::size_t kMostLargeTensors = 64;
constexpr std::size_t kLongestQuote = 80;
constexpr std::string_view kCpuTensors = "CPU tensors";
constexpr std::string_view kCpuCategories = "CPU categories";

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + separator.size());
  }
}

std::string name_in(std::string_view word) {
  return word == "-" ? std::string() : std::string(word);
}

struct CountedBytes {
  std::uint64_t count = 0;
  std::uint64_t size_bytes = 0;
};

// "400 in 8000.0 MB"
std::optional<CountedBytes> counted_bytes_in(std::string_view text) {
  const std::size_t in = text.find(" in ");
  if (in == std::string_view::npos) return std::nullopt;
  const auto count = count_in(text.substr(0, in));
  const auto bytes = mb_in(text.substr(in + 4));
  if (!count || !bytes) return std::nullopt;
  return CountedBytes{*count, *bytes};
}

// "activation 4000.0 MB in 100"
std::optional<MemoryShare> share_in(std::string_view text) {
  const std::size_t in = text.rfind(" in ");
  if (in == std::string_view::npos) return std::nullopt;
  const auto count = count_in(text.substr(in + 4));
  text = text.substr(0, in);
  if (!text.ends_with(" MB")) return std::nullopt;
  const std::size_t size = text.rfind(' ', text.size() - 4);
  if (size == std::string_view::npos) return std::nullopt;
  const auto bytes = mb_in(text.substr(size + 1));
  if (!count || !bytes) return std::nullopt;
  return MemoryShare{name_in(text.substr(0, size)), *bytes, *count};
}

bool take_shares(std::string_view value, std::vector<MemoryShare>& shares) {
  std::vector<MemoryShare> read;
  for (const std::string_view part : split(value, ", ")) {
    auto share = share_in(part);
    if (!share || read.size() == kMostShares) return false;
    read.push_back(*std::move(share));
  }
  shares = std::move(read);
  return true;
}

// "parameter 40.000 MB, activation 900.0 MB"
bool take_sizes(std::string_view value, std::vector<MemoryShare>& shares) {
  std::vector<MemoryShare> read;
  for (const std::string_view part : split(value, ", ")) {
    const std::size_t space = part.find(' ');
    const auto bytes =
        space == std::string_view::npos ? std::nullopt : mb_in(part.substr(space + 1));
    if (!bytes || read.size() == kMostShares) return false;
    read.push_back({name_in(part.substr(0, space)), *bytes, 0});
  }
  shares = std::move(read);
  return true;
}

// "12000.0 MB of 16000.0 MB", or without the total
bool take_used(std::string_view value, std::optional<std::uint64_t>& used,
               std::optional<std::uint64_t>& total) {
  const std::size_t of = value.find(" of ");
  used = mb_in(value.substr(0, of));
  if (of != std::string_view::npos) total = mb_in(value.substr(of + 4));
  return used.has_value() && (of == std::string_view::npos || total.has_value());
}

// "tensors 8073.4 MB, cached 2056.6 MB, process 77 100.0 MB, unexplained -3.000 MB"
bool take_bar(std::string_view value, std::optional<DeviceBar>& reported) {
  DeviceBar bar;
  std::int64_t used_bytes = 0;
  for (const std::string_view part : split(value, ", ")) {
    const std::size_t unit = part.rfind(' ');
    const std::size_t number = unit == 0 ? unit : part.rfind(' ', unit - 1);
    if (unit == std::string_view::npos || number == std::string_view::npos) return false;
    std::string_view figure = part.substr(number + 1);
    const bool is_negative = figure.starts_with('-');
    const auto bytes = mb_in(figure.substr(is_negative ? 1 : 0));
    if (!bytes || bar.parts.size() == kMostShares) return false;
    const std::string_view what = part.substr(0, number);
    const std::string_view kind = what.substr(0, what.find(' '));
    DevicePart read{.kind = name_in(kind)};
    if (kind.size() < what.size()) {
      const auto pid = number_in<std::int64_t>(what.substr(kind.size() + 1));
      if (!pid) return false;
      read.pid = *pid;
    }
    read.size_bytes = static_cast<std::int64_t>(is_negative ? 0 - *bytes : *bytes);
    used_bytes += read.size_bytes;
    bar.parts.push_back(std::move(read));
  }
  if (used_bytes < 0) return false;
  bar.used_bytes = static_cast<std::uint64_t>(used_bytes);
  reported = std::move(bar);
  return true;
}

// "400.0 MB in 4"
bool take_workers(std::string_view value, HostMemory& host) {
  const std::size_t in = value.find(" in ");
  if (in == std::string_view::npos) return false;
  const auto count = count_in(value.substr(in + 4));
  host.workers_bytes = mb_in(value.substr(0, in));
  host.worker_count = count.value_or(0);
  return count && host.workers_bytes;
}

// "process 3000.0 MB, workers 400.0 MB in 4, used 8000.0 MB of 32000.0 MB, cpu 150.0%"
bool take_host(std::string_view value, HostMemory& host) {
  for (const std::string_view part : split(value, ", ")) {
    const std::size_t space = part.find(' ');
    if (space == std::string_view::npos) return false;
    const std::string_view what = part.substr(0, space);
    const std::string_view figure = part.substr(space + 1);
    bool is_read = false;
    if (what == "process") is_read = (host.rss_bytes = mb_in(figure)).has_value();
    if (what == "workers") is_read = take_workers(figure, host);
    if (what == "used") is_read = take_used(figure, host.used_bytes, host.total_bytes);
    if (what == "cpu") is_read = (host.cpu_percent = percent_in(figure)).has_value();
    if (!is_read) return false;
  }
  return true;
}

bool take_large(std::string_view value, DeviceMemory& device, std::uint64_t& large_tensor_bytes) {
  for (const std::string_view words : kThresholds) {
    const std::size_t end = value.find(words);
    if (end == std::string_view::npos) continue;
    const auto large = counted_bytes_in(value.substr(0, end));
    const auto threshold = mb_in(value.substr(end + words.size()));
    if (!large || !threshold) return false;
    device.large_count = large->count;
    device.large_bytes = large->size_bytes;
    large_tensor_bytes = *threshold;
    return true;
  }
  return false;
}

// "1024.0 MB | [64, 64, 256, 256] | float32 | activation | unet.down.0 | -"
bool take_tensor(std::string_view line, std::vector<LiveTensor>& tensors) {
  const auto parts = split(trimmed(line), " | ");
  const auto bytes = mb_in(parts[0]);
  if (parts.size() != 6 || !bytes || tensors.size() == kMostLargeTensors) return false;
  tensors.push_back({name_in(parts[5]), name_in(parts[3]), name_in(parts[2]), name_in(parts[1]),
                     name_in(parts[4]), *bytes});
  return true;
}

bool take_tensors(std::string_view value, DeviceMemory& device) {
  const auto tensors = counted_bytes_in(value);
  if (!tensors) return false;
  device.live_count = tensors->count;
  device.live_bytes = tensors->size_bytes;
  return true;
}

// Whether a line within a snapshot has figures of a device, readable or not.
bool is_about_device(std::string_view line) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos) return false;
  const std::string_view key = line.substr(0, colon);
  if (key == kCpuTensors || key == kCpuCategories) return true;
  bool is_known = false;
  sample::for_each_figure<DeviceMemory>([&](const auto& field) {
    if constexpr (!sample::IsDerived<std::remove_cvref_t<decltype(field)>>::value) {
      using Type = std::remove_cvref_t<decltype(DeviceMemory().*field.member)>;
      if constexpr (std::is_same_v<Type, std::string>) return;  // a name
    }
    is_known = is_known || (field.uses.log_key != nullptr && key == field.uses.log_key);
  });
  return is_known;
}

}  // namespace

bool TextLogReader::knows(std::string_view line) {
  return line.starts_with(text_log::kTextLogMagic) ||
         (line.starts_with(kBegin) && line.ends_with(kEnd));
}

void TextLogReader::line(std::string_view line) {
  ++lines_;
  if (line.starts_with(kBegin)) {
    begin(line);
  } else if (line.empty()) {
    is_complete_ = true;
    if (!is_foreign_) end();
  } else if (line.front() == '#') {
    take_header(line);
  } else if (sample_) {
    take_in_snapshot(line);
  } else {
    ++unread_lines_;
  }
}

void TextLogReader::take_in_snapshot(std::string_view line) {
  const bool is_figure = is_about_device(line);
  // Another program's log has its own names for figures.
  const bool has_own_names =
      is_foreign_ && (device() == nullptr || device()->name == kUnnamedDevice);
  if (take(line) || (has_own_names && take_labelled(line, *sample_))) {
    read_figures_ += is_figure ? 1 : 0;
    return;
  }
  ++unread_lines_;
  unreadable_figures_ += is_figure ? 1 : 0;
  if (!first_unread_) first_unread_ = {lines_, std::string(line.substr(0, kLongestQuote))};
}

void TextLogReader::finish() {
  if (!sample_) return;
  if (is_foreign_ && (is_complete_ || !sample_->devices.empty())) return end();
  ++cut_snapshots_;
  sample_.reset();
}

bool TextLogReader::take_header(std::string_view line) {
  if (!line.starts_with(text_log::kTextLogMagic)) return false;
  const std::string_view format = trimmed(line.substr(text_log::kTextLogMagic.size()));
  const auto number = number_in<std::uint64_t>(format.substr(0, format.find('.')));
  if (number && *number > kFormat) unknown_format_ = number;
  is_run_new_ = true;
  has_header_ = true;
  return true;
}

// "=== Iteration 100 | 2026-11-20T16:40:13.125Z | loss 0.014553 ==="
void TextLogReader::begin(std::string_view line) {
  finish();  // a snapshot without an end line
  if (!line.ends_with(kEnd)) {
    ++unread_lines_;
    return;
  }
  line.remove_prefix(kBegin.size());
  line.remove_suffix(
      std::min(kEnd.size(), line.size()));  // "=== Iteration ===": both marks may share one space
  const auto parts = split(line, " | ");
  const auto iteration = whole_number_in(parts[0]);
  if (!iteration) {
    ++unread_lines_;
    return;
  }
  MemorySample& sample = sample_.emplace();
  current_device_ = 0;
  is_foreign_ = !has_header_ && parts.size() == 1;
  is_complete_ = false;
  sample.iteration = *iteration;
  for (const std::string_view part : parts) {
    if (const auto time = base::parse_time(part)) sample.time_ns = *time;
    if (part.starts_with("loss ")) sample.loss = number_in<double>(part.substr(5));
    if (part.starts_with("batch ")) sample.batch_size = whole_number_in(part.substr(6));
    if (!part.starts_with(text_log::kRanOut)) continue;
    sample.ran_out = true;
    const std::string_view of = part.substr(std::string_view(text_log::kRanOut).size());
    if (of.starts_with(text_log::kRanOutOf)) {
      sample.ran_out_of = of.substr(std::string_view(text_log::kRanOutOf).size());
    }
  }
}

void TextLogReader::end() {
  if (!sample_) return;
  auto& devices = sample_->devices;
  const auto cpu = std::ranges::find(devices, "cpu", &DeviceMemory::name);
  if (cpu != devices.end()) std::rotate(devices.begin(), cpu, cpu + 1);  // the CPU first
  ++snapshots_;
  if (sample_->iteration < iteration_) is_run_new_ = true;
  iteration_ = sample_->iteration;
  if (std::exchange(is_run_new_, false)) ++run_;
  const MemorySample sample = *std::exchange(sample_, std::nullopt);
  sink_(sample);
}

DeviceMemory* TextLogReader::device() {
  return current_device_ == 0 ? nullptr : &sample_->devices[current_device_ - 1];
}

DeviceMemory& TextLogReader::cpu_alongside() {
  const auto cpu = std::ranges::find(sample_->devices, "cpu", &DeviceMemory::name);
  if (cpu != sample_->devices.end()) return *cpu;
  DeviceMemory& made = sample_->devices.emplace_back();
  made.name = "cpu";
  return made;
}

bool TextLogReader::take(std::string_view line) {
  if (line.front() == ' ') return device() != nullptr && take_tensor(line, device()->large_tensors);
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos) return false;
  const std::string_view key = line.substr(0, colon);
  const std::string_view value = line.substr(colon + 2);
  if (key == text_log::kDeviceKey) {
    if (sample_->devices.size() == kMostLogDevices) return false;
    sample_->devices.emplace_back().name = name_in(value);
    current_device_ = sample_->devices.size();
    return true;
  }
  if (key == "Host") return take_host(value, sample_->host);
  if (key == kCpuTensors) return take_tensors(value, cpu_alongside());
  if (key == kCpuCategories) return take_shares(value, cpu_alongside().categories);
  if (device() == nullptr && is_about_device(line)) {
    sample_->devices.emplace_back().name = kUnnamedDevice;
    current_device_ = sample_->devices.size();
  }
  return device() != nullptr && take_device_value(key, value);
}

bool TextLogReader::take_device_value(std::string_view key, std::string_view value) {
  DeviceMemory& reported = *device();
  std::optional<bool> taken;  // empty if no field has this key
  sample::for_each_figure<DeviceMemory>([&](const auto& field) {
    if (field.uses.log_key == nullptr || key != field.uses.log_key) return;
    if constexpr (!sample::IsDerived<std::remove_cvref_t<decltype(field)>>::value) {
      auto& member = reported.*field.member;
      using Type = std::remove_cvref_t<decltype(member)>;
      if constexpr (std::is_same_v<Type, std::optional<std::uint64_t>>) {
        const bool is_size = field.uses.log == sample::LogForm::kSize ||
                             field.uses.log == sample::LogForm::kExactSize;
        if (is_size) taken = (member = mb_in(value)).has_value();
      } else if constexpr (std::is_same_v<Type, std::vector<MemoryShare>>) {
        const bool are_sizes = field.uses.log == sample::LogForm::kSizes ||
                               field.uses.log == sample::LogForm::kExactSizes;
        taken = are_sizes ? take_sizes(value, member) : take_shares(value, member);
      } else if constexpr (std::is_same_v<Type, std::vector<LiveTensor>>) {
        taken = take_tensor(value, member);
      } else if constexpr (std::is_same_v<Type, std::string>) {
        member = name_in(value);
        taken = true;
      }
    }
    if (!taken) taken = take_by_hand(field.uses.log, value, reported);
  });
  return taken.value_or(false);
}

bool TextLogReader::take_by_hand(sample::LogForm form, std::string_view value,
                                 DeviceMemory& reported) {
  switch (form) {
    case sample::LogForm::kAllocated: {
      const auto bytes = mb_in(value);
      if (sample::is_cpu(reported.name)) {
        reported.live_bytes = bytes.value_or(0);
      } else {
        reported.allocated_bytes = bytes;
      }
      return bytes.has_value();
    }
    case sample::LogForm::kPercent:  // computed from the sizes
      return percent_in(value).has_value();
    case sample::LogForm::kUsed:
      return take_used(value, reported.used_bytes, reported.total_bytes);
    case sample::LogForm::kBar:
      return take_bar(value, reported.bar);
    case sample::LogForm::kTensors:
      return take_tensors(value, reported);
    case sample::LogForm::kLarge:
      return take_large(value, reported, sample_->large_tensor_bytes);
    default:
      return false;
  }
}

}  // namespace plimsoll::logs
