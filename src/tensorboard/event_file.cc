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
#include "tensorboard/protobuf.h"

namespace plimsoll::tensorboard {
namespace {

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

// Summary.Value: 1 tag, 8 tensor, 9 metadata; the layout is a string in a tensor without
// dimensions.
std::string layout_summary_of(const std::vector<ChartGroup>& groups) {
  constexpr std::uint64_t kString = 7;  // tensorflow.DataType
  std::string tensor;                   // 1 dtype, 2 tensor_shape, 8 string_val
  put_varint(tensor, 1, kString);
  put_bytes(tensor, 2, "");
  put_bytes(tensor, 8, layout_message(groups));
  std::string plugin;  // 1 plugin_name
  put_bytes(plugin, 1, "custom_scalars");
  std::string metadata;  // 1 plugin_data
  put_bytes(metadata, 1, plugin);
  std::string value;
  put_bytes(value, 1, "custom_scalars__config__");
  put_bytes(value, 8, tensor);
  put_bytes(value, 9, metadata);
  std::string summary;
  put_bytes(summary, 1, value);
  return summary;
}

// A big-endian number in a PNG's header: the width is at byte 16, the height at byte 20.
std::uint32_t big_endian_at(const std::string& png, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t byte = at; byte < at + 4 && byte < png.size(); ++byte) {
    value = (value << 8) | static_cast<unsigned char>(png[byte]);
  }
  return value;
}

// Summary.Value: 1 tag, 4 image with 1 height, 2 width, 3 colorspace, 4 encoded_image_string.
std::string image_summary_of(const std::string& tag, const std::string& png) {
  constexpr std::uint64_t kRgb = 3;
  std::string image;
  put_varint(image, 1, big_endian_at(png, 20));
  put_varint(image, 2, big_endian_at(png, 16));
  put_varint(image, 3, kRgb);
  put_bytes(image, 4, png);
  std::string value;
  put_bytes(value, 1, tag);
  put_bytes(value, 4, image);
  std::string summary;
  put_bytes(summary, 1, value);
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
  put_varint(event, 2, static_cast<std::uint64_t>(step));
  put_bytes(event, 5, summary_of(scalars));
  return file_.write(framed(event));
}

Status EventFile::write_layout(std::int64_t time_ns, const std::vector<ChartGroup>& groups) {
  if (!is_open()) return {};
  std::string event = begin_event(time_ns);
  put_bytes(event, 5, layout_summary_of(groups));
  return file_.write(framed(event));
}

Status EventFile::write_image(std::int64_t time_ns, std::int64_t step, const std::string& tag,
                              const std::string& png) {
  if (!is_open()) return {};
  std::string event = begin_event(time_ns);
  put_varint(event, 2, static_cast<std::uint64_t>(step));
  put_bytes(event, 5, image_summary_of(tag, png));
  return file_.write(framed(event));
}

}  // namespace plimsoll::tensorboard
