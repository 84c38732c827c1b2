#include "analysis/device/device.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

#include "analysis/device/process.h"
#include "analysis/running_totals.h"
#include "base/check.h"
#include "base/device_bar.h"

namespace plimsoll::analysis::device {
namespace {

using model::Action;
using model::DeviceReading;
using model::DeviceTrace;
using model::Trace;

constexpr std::array<const char*, 1> kDependsOn{"timeline"};
// The driver is queried immediately when a device runs out of memory, so a reading within this time
// belongs to the failure.
constexpr std::int64_t kSimultaneousNs = 2'000'000'000;

// The allocator's totals, advanced from one reading to the next.
class AllocatorFigures {
 public:
  AllocatorFigures(const DeviceTrace& device, const report::DeviceReport& totals)
      : device_(device),
        view_(view_of(device)),
        totals_(baseline_totals(totals.timeline)),
        has_segments_(of(totals_, Series::kReserved) != 0) {}

  base::DeviceFigures figures_at(const DeviceReading& reading) {
    for (; next_ < reading.events_before; ++next_) {
      view_.apply_to(totals_, next_);
      has_segments_ = has_segments_ || of(totals_, Series::kReserved) != 0;
    }
    base::DeviceFigures figures = reading.figures;
    if (device_.events.size() == 0) return figures;  // the allocator was not recorded
    figures.allocated_bytes = of(
        totals_, device_.has_block_sizes ? Series::kAllocatedRounded : Series::kRequestedAllocated);
    if (has_segments_) figures.reserved_bytes = of(totals_, Series::kReserved);
    return figures;
  }

 private:
  const DeviceTrace& device_;
  const EventView view_;
  Totals totals_;
  bool has_segments_;
  std::uint32_t next_ = 0;
};

report::DeviceBarReport report_of(const DeviceBar& bar, const DeviceReading& reading) {
  report::DeviceBarReport out;
  out.time_ns = reading.time_ns;
  out.event = reading.events_before;
  out.used_bytes = bar.used_bytes;
  out.total_bytes = bar.total_bytes;
  for (const DevicePart& part : bar.parts) {
    out.parts.push_back({part.kind, base::part_label(part), part.size_bytes, part.pid, part.count});
  }
  return out;
}

std::int64_t distance(std::int64_t a_ns, std::int64_t b_ns) {
  const auto difference = static_cast<std::uint64_t>(a_ns) - static_cast<std::uint64_t>(b_ns);
  return a_ns < b_ns ? static_cast<std::int64_t>(0 - difference)
                     : static_cast<std::int64_t>(difference);
}

// The time of the device's last failure; kNoTime if there was none or its time is unknown.
std::int64_t last_oom(const DeviceTrace& device) {
  for (std::size_t event = device.events.size(); event > 0; --event) {
    if (device.events.action[event - 1] == Action::kOom) return device.events.time_ns[event - 1];
  }
  return model::kNoTime;
}

std::vector<report::DeviceBarReport> bars_of(const Trace& trace, const DeviceTrace& device,
                                             const report::DeviceReport& totals) {
  AllocatorFigures allocator(device, totals);
  const std::int64_t oom_ns = last_oom(device);
  std::optional<report::DeviceBarReport> fullest;
  std::optional<report::DeviceBarReport> at_oom;
  std::int64_t nearest_ns = kSimultaneousNs;
  std::uint64_t readings = 0;
  for (const DeviceReading& reading : trace.readings) {
    if (reading.device != device.device) continue;
    const auto bar = base::device_bar(allocator.figures_at(reading));
    if (!bar) continue;
    ++readings;
    if (!fullest || bar->used_bytes > fullest->used_bytes) fullest = report_of(*bar, reading);
    if (oom_ns == model::kNoTime || distance(reading.time_ns, oom_ns) >= nearest_ns) continue;
    nearest_ns = distance(reading.time_ns, oom_ns);
    at_oom = report_of(*bar, reading);
  }
  std::vector<report::DeviceBarReport> bars;
  const auto add = [&](std::optional<report::DeviceBarReport>& bar, const char* point) {
    if (!bar) return;
    bar->point = point;
    bar->readings = readings;
    bars.push_back(std::move(*bar));
  };
  add(fullest, "fullest");
  add(at_oom, "oom");
  return bars;
}

class DevicePass final : public Pass {
 public:
  const char* name() const override { return "device"; }
  std::span<const char* const> depends_on() const override { return kDependsOn; }
  OptionSet uses() const override { return OptionSet::kDevice; }
  void clear(report::Report& report) const override {
    for (report::DeviceReport& device : report.devices) {
      device.bars.clear();
      clear_process(device);
    }
  }
  Status run(PassContext& context) const override {
    const Trace& trace = context.trace;
    if (trace.readings.empty()) return {};
    PLIMSOLL_CHECK(context.report.devices.size() == trace.devices.size());
    for (std::size_t d = 0; d < trace.devices.size(); ++d) {
      const DeviceTrace& device = trace.devices[d];
      if (context.options.device && *context.options.device != device.device) continue;
      report::DeviceReport& out = context.report.devices[d];
      if (device.device.type == model::DeviceType::kCpu) {
        add_process(trace, device, out);
      } else {
        out.bars = bars_of(trace, device, out);
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<DevicePass>(); }

}  // namespace plimsoll::analysis::device
