#include "analysis/fragmentation/fragmentation.h"

#include <array>
#include <optional>
#include <utility>

#include "analysis/pinning.h"
#include "base/check.h"
#include "model/heap_layout.h"
#include "model/live_set.h"

namespace plimsoll::analysis::fragmentation {
namespace {

using model::Action;
using model::DeviceTrace;
using model::Trace;

constexpr std::array<const char*, 1> kDependsOn{"timeline"};

Request request_of(const Trace& trace, const DeviceTrace& device, std::size_t event) {
  const model::Site& site = trace.site(device, event);
  return {device.events.size_bytes[event], site.stream, site.pool};
}

std::optional<Request> request_to_measure_against(const Trace& trace, const DeviceTrace& device) {
  std::optional<std::size_t> failed, largest;
  const model::Events& events = device.events;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (events.action[row] == Action::kOom) failed = row;
    if (events.action[row] != Action::kAlloc) continue;
    if (!largest || events.size_bytes[row] > events.size_bytes[*largest]) largest = row;
  }
  const std::optional<std::size_t> row = failed ? failed : largest;
  if (!row) return {};
  return request_of(trace, device, *row);
}

struct AllocatedBytes {
  std::uint64_t allocated = 0;  // after rounding
  std::uint64_t requested = 0;
};

AllocatedBytes allocated_bytes(const Trace& trace, const DeviceTrace& device) {
  AllocatedBytes sum;
  for (const auto& segment : trace.segments.span(device.first_segment, device.segment_count)) {
    for (const auto& block : trace.blocks.span(segment.first_block, segment.block_count)) {
      if (block.state != model::BlockState::kActiveAllocated) continue;
      sum.allocated += block.size;
      sum.requested += block.requested_size;
    }
  }
  return sum;
}

report::Fragmentation measure(const Trace& trace, const DeviceTrace& device,
                              const model::UserLines& lines) {
  const std::optional<Request> request = request_to_measure_against(trace, device);
  Pinning pinning = find_pinning(trace, model::final_layout(trace, device), lines, request);
  const AllocatedBytes bytes = allocated_bytes(trace, device);
  report::Fragmentation result;
  if (bytes.allocated > bytes.requested) result.internal_bytes = bytes.allocated - bytes.requested;
  result.cached_bytes = pinning.cached_bytes;
  result.releasable_bytes = pinning.releasable_bytes;
  result.private_bytes = pinning.private_bytes;
  result.private_pools = pools_text(trace, pinning.private_pools);
  result.pinned_bytes = pinning.pinned_bytes;
  result.largest_free_bytes = pinning.largest_free_bytes;
  // A file that contradicts itself may have more allocated than reserved.
  if (pinning.reserved_bytes > 0 && bytes.allocated <= pinning.reserved_bytes) {
    result.ratio =
        1.0 - static_cast<double>(bytes.allocated) / static_cast<double>(pinning.reserved_bytes);
  }
  if (request) {
    result.stranded_request_bytes = request->size_bytes;
    result.stranded_bytes = pinning.stranded_bytes;
  }
  result.segments = std::move(pinning.segments);
  result.pinning_lines = std::move(pinning.lines);
  result.lone_blocks = std::move(pinning.lone_blocks);
  return result;
}

// The request behind the event that raised reserved bytes: the allocation that follows the event.
std::optional<std::size_t> next_request(const DeviceTrace& device, std::size_t event) {
  for (std::size_t e = event + 1; e < device.events.size(); ++e) {
    const Action action = device.events.action[e];
    if (action == Action::kAlloc || action == Action::kOom) return e;
  }
  return {};
}

report::ReservedPeak measure_reserved_peak(const PassContext& context, const DeviceTrace& device,
                                           std::optional<std::uint64_t> peak_event) {
  if (!peak_event) return {};
  const Trace& trace = context.trace;
  const auto row = next_request(device, *peak_event);
  if (!row) return {};
  const Request request = request_of(trace, device, *row);
  const std::array<std::int64_t, 1> point{static_cast<std::int64_t>(*peak_event)};
  const auto live = model::live_set(device, model::Liveness::kActive, point[0]);
  const auto layout =
      model::layout_of(trace, device, model::segments_at(trace, device, point)[0], live);
  Pinning pinning = find_pinning(trace, layout, context.lines, request);
  return report::ReservedPeak{peak_event,
                              context.lines.label(trace.site(device, *row).stack),
                              request.size_bytes,
                              pinning.stranded_bytes,
                              std::move(pinning.lines),
                              pinning.joinable_bytes};
}

class FragmentationPass final : public Pass {
 public:
  const char* name() const override { return "fragmentation"; }
  std::span<const char* const> depends_on() const override { return kDependsOn; }
  std::string why_not(const Trace& trace) const override {
    if (trace.has_final_state) return {};
    return "this file does not contain the allocator's segments";
  }
  OptionSet uses() const override { return OptionSet::kDevice; }
  void clear(report::Report& report) const override {
    for (report::DeviceReport& device : report.devices) device.fragmentation = {};
  }
  Status run(PassContext& context) const override {
    const Trace& trace = context.trace;
    PLIMSOLL_CHECK(context.report.devices.size() == trace.devices.size());
    for (std::size_t d = 0; d < trace.devices.size(); ++d) {
      const DeviceTrace& device = trace.devices[d];
      if (context.options.device && *context.options.device != device.device) continue;
      if (!device.has_final_state) continue;
      report::DeviceReport& out = context.report.devices[d];
      out.fragmentation = measure(trace, device, context.lines);
      out.fragmentation.at_reserved_peak =
          measure_reserved_peak(context, device, out.reserved.peak_event);
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<FragmentationPass>(); }

}  // namespace plimsoll::analysis::fragmentation
