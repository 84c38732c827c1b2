#include "monitor/live_status_file.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <utility>

namespace plimsoll::monitor {
namespace {

constexpr std::size_t kMostDevices = 16;
constexpr std::size_t kMostShares = 24;
constexpr std::size_t kMostTensors = 12;
constexpr std::size_t kMostNameBytes = 96;
constexpr std::size_t kShareBytes = 2 + kMostNameBytes + 2 * 8;
constexpr std::size_t kTensorBytes = 5 * (2 + kMostNameBytes) + 8;
constexpr std::size_t kMostParts = 16;
constexpr std::size_t kBarBytes = 1 + 3 * 8 + 2 + kMostParts * (2 * (2 + kMostNameBytes) + 3 * 8);
constexpr std::size_t kDeviceBytes = 2 * (2 + kMostNameBytes) + kBarBytes + 4 * 8 + 5 * 9 +
                                     3 * (2 + (kMostShares + 1) * kShareBytes) + 2 +
                                     kMostTensors * kTensorBytes;
static_assert(256 + kMostDevices * kDeviceBytes <= kMostSampleBytes);

// Numbers as the machine has them: the file is read where it is written.
class Writer {
 public:
  template <typename T>
  void number(T value) {
    const auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  template <typename T>
  void optional(const std::optional<T>& value) {
    number<std::uint8_t>(value ? 1 : 0);
    number<T>(value.value_or(0));
  }
  void size(std::size_t value) { number(static_cast<std::uint16_t>(value)); }
  void text(std::string_view value) {
    if (value.size() > kMostNameBytes) value = value.substr(0, kMostNameBytes);
    size(value.size());
    const auto* data = reinterpret_cast<const std::byte*>(value.data());
    bytes_.insert(bytes_.end(), data, data + value.size());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// After something that does not fit, all that follows is zero and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool is_at_end() const { return rest_.empty(); }

  template <typename T>
  T number() {
    std::array<std::byte, sizeof(T)> bytes{};
    const auto from = take(sizeof(T));
    std::ranges::copy(from, bytes.begin());
    return std::bit_cast<T>(bytes);
  }
  template <typename T = std::uint64_t>
  std::optional<T> optional() {
    const auto is_there = number<std::uint8_t>();
    const auto value = number<T>();
    if (is_there > 1) ok_ = false;
    return is_there == 1 ? std::optional(value) : std::nullopt;
  }
  std::size_t size(std::size_t most) {
    const std::size_t value = number<std::uint16_t>();
    if (value > most) ok_ = false;
    return ok_ ? value : 0;
  }
  std::string text() {
    const auto bytes = take(size(kMostNameBytes));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (size > rest_.size()) ok_ = false;
    if (!ok_) return {};
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  std::span<const std::byte> rest_;
  bool ok_ = true;
};

void write_shares(Writer& writer, const std::vector<MemoryShare>& shares) {
  MemoryShare rest;
  rest.name = "(rest)";
  for (std::size_t i = kMostShares; i < shares.size(); ++i) {
    rest.size_bytes += shares[i].size_bytes;
    rest.count += shares[i].count;
  }
  const std::size_t whole = std::min(shares.size(), kMostShares);
  const bool is_cut = shares.size() > kMostShares;
  const auto write = [&](const MemoryShare& share) {
    writer.text(share.name);
    writer.number(share.size_bytes);
    writer.number(share.count);
  };
  writer.size(whole + (is_cut ? 1 : 0));
  for (std::size_t i = 0; i < whole; ++i) write(shares[i]);
  if (is_cut) write(rest);
}

std::vector<MemoryShare> read_shares(Reader& reader) {
  std::vector<MemoryShare> shares(reader.size(kMostShares + 1));
  for (MemoryShare& share : shares) {
    share.name = reader.text();
    share.size_bytes = reader.number<std::uint64_t>();
    share.count = reader.number<std::uint64_t>();
  }
  return shares;
}

void write_tensors(Writer& writer, const std::vector<LiveTensor>& tensors) {
  const std::size_t count = std::min(tensors.size(), kMostTensors);
  writer.size(count);
  for (std::size_t i = 0; i < count; ++i) {
    const LiveTensor& tensor = tensors[i];
    for (const auto* text :
         {&tensor.name, &tensor.category, &tensor.dtype, &tensor.shape, &tensor.layer}) {
      writer.text(*text);
    }
    writer.number(tensor.size_bytes);
  }
}

std::vector<LiveTensor> read_tensors(Reader& reader) {
  std::vector<LiveTensor> tensors(reader.size(kMostTensors));
  for (LiveTensor& tensor : tensors) {
    for (auto* text :
         {&tensor.name, &tensor.category, &tensor.dtype, &tensor.shape, &tensor.layer}) {
      *text = reader.text();
    }
    tensor.size_bytes = reader.number<std::uint64_t>();
  }
  return tensors;
}

// What has more parts is not shown: a part of a bar is no bar.
void write_bar(Writer& writer, const std::optional<DeviceBar>& bar) {
  const bool is_told = bar && bar->parts.size() <= kMostParts;
  writer.number<std::uint8_t>(is_told ? 1 : 0);
  if (!is_told) return;
  writer.number(bar->used_bytes);
  writer.number(bar->total_bytes);
  writer.number(bar->time_ns);
  writer.size(bar->parts.size());
  for (const DevicePart& part : bar->parts) {
    writer.text(part.kind);
    writer.text(part.name);
    writer.number(part.size_bytes);
    writer.number(part.pid);
    writer.number(part.count);
  }
}

std::optional<DeviceBar> read_bar(Reader& reader) {
  if (reader.number<std::uint8_t>() == 0) return std::nullopt;
  DeviceBar bar;
  bar.used_bytes = reader.number<std::uint64_t>();
  bar.total_bytes = reader.number<std::uint64_t>();
  bar.time_ns = reader.number<std::int64_t>();
  bar.parts.resize(reader.size(kMostParts));
  for (DevicePart& part : bar.parts) {
    part.kind = reader.text();
    part.name = reader.text();
    part.size_bytes = reader.number<std::int64_t>();
    part.pid = reader.number<std::int64_t>();
    part.count = reader.number<std::uint64_t>();
  }
  return bar;
}

// The same order for both directions.
template <typename Device, typename Use>
void for_each_optional(Device& device, const Use& use) {
  use(device.allocated_bytes);
  use(device.reserved_bytes);
  use(device.peak_bytes);
  use(device.used_bytes);
  use(device.total_bytes);
}

void write_device(Writer& writer, const DeviceMemory& device) {
  writer.text(device.name);
  writer.number(device.live_bytes);
  writer.number(device.live_count);
  writer.number(device.large_count);
  writer.number(device.large_bytes);
  write_shares(writer, device.categories);
  write_shares(writer, device.dtypes);
  write_shares(writer, device.layers);
  write_tensors(writer, device.large_tensors);
  for_each_optional(device, [&](const auto& value) { writer.optional(value); });
  writer.text(device.uuid);
  write_bar(writer, device.bar);
}

DeviceMemory read_device(Reader& reader) {
  DeviceMemory device;
  device.name = reader.text();
  device.live_bytes = reader.number<std::uint64_t>();
  device.live_count = reader.number<std::uint64_t>();
  device.large_count = reader.number<std::uint64_t>();
  device.large_bytes = reader.number<std::uint64_t>();
  device.categories = read_shares(reader);
  device.dtypes = read_shares(reader);
  device.layers = read_shares(reader);
  device.large_tensors = read_tensors(reader);
  for_each_optional(device, [&](auto& value) { value = reader.optional(); });
  device.uuid = reader.text();
  device.bar = read_bar(reader);
  return device;
}

}  // namespace

std::vector<std::byte> encode_sample(const MemorySample& sample) {
  Writer writer;
  writer.number(sample.time_ns);
  writer.number(sample.iteration);
  writer.optional(sample.loss);
  writer.number(sample.large_tensor_bytes);
  writer.optional(sample.host.rss_bytes);
  writer.optional(sample.host.used_bytes);
  writer.optional(sample.host.total_bytes);
  writer.optional(sample.host.cpu_percent);
  const std::size_t devices = std::min(sample.devices.size(), kMostDevices);
  writer.size(devices);
  for (std::size_t i = 0; i < devices; ++i) write_device(writer, sample.devices[i]);
  return writer.take();
}

std::optional<MemorySample> decode_sample(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  MemorySample sample;
  sample.time_ns = reader.number<std::int64_t>();
  sample.iteration = reader.number<std::int64_t>();
  sample.loss = reader.optional<double>();
  sample.large_tensor_bytes = reader.number<std::uint64_t>();
  sample.host.rss_bytes = reader.optional();
  sample.host.used_bytes = reader.optional();
  sample.host.total_bytes = reader.optional();
  sample.host.cpu_percent = reader.optional<double>();
  const std::size_t devices = reader.size(kMostDevices);
  for (std::size_t i = 0; i < devices && reader.ok(); ++i) {
    sample.devices.push_back(read_device(reader));
  }
  if (!reader.ok() || !reader.is_at_end()) return std::nullopt;
  return sample;
}

std::uint64_t sample_checksum(std::uint64_t number, std::span<const std::byte> bytes) {
  constexpr std::uint64_t kPrime = 1099511628211ULL;  // FNV-1a
  std::uint64_t sum = 14695981039346656037ULL ^ number;
  for (const std::byte byte : bytes) sum = (sum ^ static_cast<std::uint64_t>(byte)) * kPrime;
  return sum;
}

std::int64_t live_status_clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::uint64_t own_pid_namespace() {
  struct stat told{};
  return ::stat("/proc/self/ns/pid", &told) == 0 ? std::uint64_t{told.st_ino} : 0;
}

}  // namespace plimsoll::monitor
