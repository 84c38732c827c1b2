// Who held a device's memory at some moment of the recording: plimsoll/memory_sample.h's bar.
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
    return std::tuple{
        Field{
            "kind", &BarPart::kind,
            "tensors and cached (of PyTorch's allocator), context (what CUDA took when the process "
            "began on the device), outside (of the process, not its allocator's), process "
            "(another one), driver (kept by driver and firmware); the last one is what is left: "
            "not_told (outside the allocator, of this process or others), others (of processes "
            "whose bytes the driver does not tell) or unexplained."},
        Field{"label", &BarPart::label, "The same for people, with a process's command."},
        Field{"bytes", &BarPart::bytes,
              "Below zero, in the last part alone: the figures, which are taken at different "
              "moments, are more than what is used."},
        Field{"pid", &BarPart::pid, "Of the process; 0: none, or several."},
        Field{"processes", &BarPart::processes, "How many processes this is of, where not ours."}};
  }
};

struct BarReport {
  std::string moment = {};
  std::int64_t time_ns = 0;
  std::uint64_t event = 0;
  std::uint64_t looks = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::vector<BarPart> parts = {};

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"moment", &BarReport::moment,
              "fullest: the look with most bytes used; oom: when the device ran out of memory the "
              "last time."},
        Field{"time_ns", &BarReport::time_ns, "When the driver was asked."},
        Field{"event", &BarReport::event, "How many events of the device came before."},
        Field{"looks", &BarReport::looks, "How often the driver was asked in all."},
        Field{"used_bytes", &BarReport::used_bytes,
              "All that is not free, of all processes and the driver's own; the parts sum to it."},
        Field{"total_bytes", &BarReport::total_bytes, "What the device has."},
        Field{"parts", &BarReport::parts, "Whose it is."}};
  }
};

// "tensors 48.0 GiB, cached 12.0 GiB, ...": by their labels.
inline std::string parts_text(const std::vector<BarPart>& parts) {
  DeviceBar bar;
  for (const BarPart& part : parts) {
    bar.parts.push_back({.kind = part.label, .size_bytes = part.bytes});
  }
  return base::parts_text(bar);
}

}  // namespace plimsoll::report
