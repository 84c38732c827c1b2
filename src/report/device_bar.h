// How a device's memory is used at one point of the recording, in the parts of the bar in
// plimsoll/memory_sample.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/device_bar.h"
#include "base/fields.h"

namespace plimsoll::report {

struct BarPart {
  std::string kind = {};
  std::string label = {};
  std::int64_t bytes = 0;
  std::int64_t pid = 0;
  std::uint64_t processes = 0;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"kind", &BarPart::kind,
              "tensors and cached: PyTorch's allocator. context: the CUDA context of the process. "
              "outside: the process, outside the allocator. process: another process. driver: "
              "reserved by driver and firmware. The last part is the remainder: not_reported "
              "(outside the allocator, of this process or others), others (processes whose bytes "
              "the driver does not report) or unexplained."},
        Field{"label", &BarPart::label, "The part as text, with the command of a process."},
        Field{"bytes", &BarPart::bytes,
              "Bytes of the part. Only the last part can be negative: the figures are read at "
              "slightly different times and may add up to more than used_bytes."},
        Field{"pid", &BarPart::pid, "Process id; 0 for no process or several."},
        Field{"processes", &BarPart::processes,
              "Number of processes in the part, without the recorded one."});
  }
};

struct DeviceBarReport {
  std::string point = {};
  std::int64_t time_ns = 0;
  std::uint64_t event = 0;
  std::uint64_t readings = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::vector<BarPart> parts = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"at", &DeviceBarReport::point,
              "fullest: the reading with the most bytes used. oom: the last time the device ran "
              "out of memory."},
        Field{"time_ns", &DeviceBarReport::time_ns, "Time of the reading."},
        Field{"event", &DeviceBarReport::event,
              "Number of events of the device before the reading."},
        Field{"readings", &DeviceBarReport::readings, "Number of readings in the recording."},
        Field{"used_bytes", &DeviceBarReport::used_bytes,
              "Bytes in use by all processes and the driver; the sum of the parts."},
        Field{"total_bytes", &DeviceBarReport::total_bytes, "Capacity of the device."},
        Field{"parts", &DeviceBarReport::parts, "The users of the memory."});
  }
};

// "tensors 48.0 GiB, cached 12.0 GiB, ...": by label.
inline std::string parts_text(const std::vector<BarPart>& parts) {
  DeviceBar bar;
  for (const BarPart& part : parts) {
    bar.parts.push_back({.kind = part.label, .size_bytes = part.bytes});
  }
  return base::parts_text(bar);
}

}  // namespace plimsoll::report
