#include "live/live_status_file.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "sample/names.h"

namespace plimsoll::live {
namespace {

constexpr std::size_t kMostNameBytes = 96;

// The maximum length of each list; the rest is dropped or combined.
template <typename T>
constexpr std::size_t kMost = 0;
template <>
constexpr std::size_t kMost<MemoryShare> = 25;  // including one for (rest)
template <>
constexpr std::size_t kMost<LiveTensor> = 12;
template <>
constexpr std::size_t kMost<DevicePart> = 16;
template <>
constexpr std::size_t kMost<DeviceMemory> = 16;

template <typename T>
constexpr std::size_t most_bytes();

template <typename T>
constexpr std::size_t most_bytes_of(const std::vector<T>*) {
  return 2 + kMost<T> * most_bytes<T>();
}
template <typename T>
constexpr std::size_t most_bytes_of(const std::optional<T>*) {
  return 1 + most_bytes<T>();
}
template <typename T>
constexpr std::size_t most_bytes_of(const T*) {
  if constexpr (sample::HasSampleFields<T>) {
    std::size_t bytes = 0;
    sample::for_each_field<T>([&](const auto& field) {
      bytes += most_bytes<typename std::remove_cvref_t<decltype(field)>::Type>();
    });
    return bytes;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return 2 + kMostNameBytes;
  } else {
    return sizeof(T);
  }
}
template <typename T>
constexpr std::size_t most_bytes() {
  return most_bytes_of(static_cast<const T*>(nullptr));
}
static_assert(most_bytes<MemorySample>() <= kMostSampleBytes);

// Uses native byte order: the file is read on the machine that writes it.
class Writer {
 public:
  template <typename T>
  void number(T value) {
    const auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
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

// After a value that does not fit, all further values are zero and ok() is false.
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
  bool boolean() {
    const auto value = number<std::uint8_t>();
    if (value > 1) ok_ = false;
    return ok_ && value == 1;
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

// Shares beyond the limit of a list are combined into one share.
std::vector<MemoryShare> shortened(const std::vector<MemoryShare>& shares) {
  constexpr std::size_t kWhole = kMost<MemoryShare> - 1;
  if (shares.size() <= kWhole) return shares;
  std::vector<MemoryShare> shorter(shares.begin(), shares.begin() + kWhole);
  MemoryShare& rest = shorter.emplace_back();
  rest.name = sample::kRest;
  for (std::size_t i = kWhole; i < shares.size(); ++i) {
    rest.size_bytes += shares[i].size_bytes;
    rest.count += shares[i].count;
  }
  return shorter;
}

// A bar with more parts is dropped, because its parts must sum to the total.
bool is_shown(const DeviceBar& bar) { return bar.parts.size() <= kMost<DevicePart>; }
template <typename T>
bool is_shown(const T& /*value*/) {
  return true;
}

template <typename T>
void write(Writer& writer, const T& value);

template <typename T>
void write_list(Writer& writer, const std::vector<T>& list) {
  const std::size_t count = std::min(list.size(), kMost<T>);
  writer.size(count);
  for (std::size_t i = 0; i < count; ++i) write(writer, list[i]);
}

template <typename T>
void write_optional(Writer& writer, const std::optional<T>& value) {
  const bool is_there = value && is_shown(*value);
  writer.number<std::uint8_t>(is_there ? 1 : 0);
  if (is_there) write(writer, *value);
}

template <typename T>
void write(Writer& writer, const T& value) {
  if constexpr (sample::HasSampleFields<T>) {
    sample::for_each_field<T>([&](const auto& field) { write(writer, field.of(value)); });
  } else if constexpr (std::is_same_v<T, std::string>) {
    writer.text(value);
  } else if constexpr (std::is_same_v<T, std::vector<MemoryShare>>) {
    write_list(writer, shortened(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    writer.number<std::uint8_t>(value ? 1 : 0);
  } else if constexpr (std::is_arithmetic_v<T>) {
    writer.number(value);
  } else if constexpr (requires { value.has_value(); }) {
    write_optional(writer, value);
  } else {
    write_list(writer, value);
  }
}

template <typename T>
void read(Reader& reader, T& value);

template <typename T>
void read(Reader& reader, std::vector<T>& list) {
  const std::size_t count = reader.size(kMost<T>);
  for (std::size_t i = 0; i < count && reader.ok(); ++i) read(reader, list.emplace_back());
}

template <typename T>
void read(Reader& reader, std::optional<T>& value) {
  if (reader.boolean()) read(reader, value.emplace());
}

template <typename T>
void read(Reader& reader, T& value) {
  if constexpr (sample::HasSampleFields<T>) {
    sample::for_each_field<T>([&](const auto& field) { read(reader, value.*field.member); });
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = reader.text();
  } else if constexpr (std::is_same_v<T, bool>) {
    value = reader.boolean();
  } else {
    value = reader.template number<T>();
  }
}

}  // namespace

std::vector<std::byte> encode_sample(const MemorySample& sample) {
  Writer writer;
  write(writer, sample);
  return writer.take();
}

std::optional<MemorySample> decode_sample(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  MemorySample sample;
  read(reader, sample);
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

}  // namespace plimsoll::live
