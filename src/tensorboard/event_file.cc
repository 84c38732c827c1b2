#include "tensorboard/event_file.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <string_view>

#include "base/timestamps.h"
#include "sample/names.h"
#include "tensorboard/crc32c.h"

namespace plimsoll::tensorboard {
namespace {

// The part of protobuf that Event needs.

enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <typename T>
void put_little_endian(std::string& out, T value) {
  for (std::size_t byte = 0; byte < sizeof(T); ++byte) {
    out += static_cast<char>((value >> (8 * byte)) & 0xFF);
  }
}

void put_key(std::string& out, std::uint32_t field, Wire wire) {
  put_varint(out, (field << 3) | static_cast<std::uint32_t>(wire));
}

void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_key(out, field, Wire::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// tensorflow.Event: 1 wall_time, 2 step, 3 file_version, 5 summary.
std::string begin_event(std::int64_t time_ns) {
  std::string event;
  put_key(event, 1, Wire::kFixed64);
  put_little_endian(event, std::bit_cast<std::uint64_t>(static_cast<double>(time_ns) / 1e9));
  return event;
}

// tensorflow.Summary: 1 values, each with 1 tag, 2 simple_value.
std::string summary_of(const std::vector<Scalar>& scalars) {
  std::string summary;
  std::string value;
  for (const Scalar& scalar : scalars) {
    value.clear();
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, Wire::kFixed32);
    put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, 1, value);
  }
  return summary;
}

// A TFRecord: length and its checksum, data and its checksum.
std::string framed(std::string_view data) {
  std::string record;
  put_little_endian(record, static_cast<std::uint64_t>(data.size()));
  put_little_endian(record, masked_crc32c(record));
  record += data;
  put_little_endian(record, masked_crc32c(data));
  return record;
}

}  // namespace

Status EventFile::create(const std::string& folder) {
  static std::atomic<unsigned> next{0};
  const std::int64_t time_ns = base::now_ns();
  std::array<char, 24> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%010lld",
                static_cast<long long>(time_ns / 1'000'000'000));
  const unsigned n = next.fetch_add(1, std::memory_order_relaxed);
  PLIMSOLL_TRY(file_.create(folder,
                            std::string("events.out.tfevents.") + seconds.data() + "." +
                                sample::host_name() + "." + std::to_string(::getpid()) + "." +
                                std::to_string(n),
                            ""));
  std::string event = begin_event(time_ns);
  put_bytes(event, 3, "brain.Event:2");
  return file_.write(framed(event));
}

Status EventFile::write(std::int64_t time_ns, std::int64_t step,
                        const std::vector<Scalar>& scalars) {
  if (!is_open() || scalars.empty()) return {};
  std::string event = begin_event(time_ns);
  put_key(event, 2, Wire::kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  put_bytes(event, 5, summary_of(scalars));
  return file_.write(framed(event));
}

}  // namespace plimsoll::tensorboard
