#include "findings/peak/peak.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "analysis/evidence/backwards.h"
#include "base/growth_rule.h"
#include "findings/live.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/live_set.h"
#include "model/user_line.h"

namespace plimsoll::findings {
namespace {

// The largest share of the live bytes that events and blocks may leave unexplained.
constexpr double kMostUnexplained = 0.05;

// Whether a backward uses the forward around the peak, or may do so after the recording.
bool is_in_used_forward(const evidence::Evidence& evidence, const DeviceFacts& device,
                        const model::Trace& trace, const report::PointInTime& point) {
  if (point.phase != "forward") return false;
  const model::Lifetimes& lifetimes = device.trace.lifetimes;
  for (std::size_t row = lifetimes.size(); row-- > lifetimes.baseline_count;) {
    const bool is_of_forward = trace.birth(device.trace, row).phase == model::Phase::kForward;
    if (lifetimes.alloc[row] > *point.event || !is_of_forward) continue;
    return evidence.may_be_used_by_backward(static_cast<std::uint32_t>(row));
  }
  return false;
}

// Whether a graph may wait for a backward when the recording ends.
bool may_await_backward(const Facts& facts, const DeviceFacts& device) {
  const evidence::Evidence& evidence = facts.evidence(device.trace).evidence;
  const model::Lifetimes& lifetimes = device.trace.lifetimes;
  for (std::uint32_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const model::Site& site = facts.trace.birth(device.trace, row);
    const bool may_be_of_graph =
        site.phase == model::Phase::kForward && site.autograd != model::Autograd::kOff;
    if (may_be_of_graph && evidence.fate(row) == evidence::Fate::kLive) return true;
  }
  return false;
}

// A forward that ran out of memory may be the first one of a training run.
bool may_train(const Facts& facts, const DeviceFacts& device) {
  const model::Trace& trace = facts.trace;
  if (trace.has_inferred_roles) return true;
  for (std::size_t row = 0; row < trace.marks.size(); ++row) {
    if (trace.marks[row].kind == model::MarkKind::kBackwardBegin) return true;
  }
  for (std::uint32_t id = 0; id < trace.sites.size(); ++id) {
    const model::Phase phase = trace.sites[model::SiteId{id}].phase;
    if (phase == model::Phase::kBackward || phase == model::Phase::kOptimizer) return true;
  }
  const auto has_failed = [](const report::DeviceReport& each) {
    return !each.oom_details.empty();
  };
  return std::ranges::any_of(facts.report.devices, has_failed) || may_await_backward(facts, device);
}

std::unordered_set<std::string> growing_lines(const Facts& facts, std::int32_t device) {
  std::unordered_set<std::string> lines;
  for (const report::GrowthRow& row : facts.report.tables.growth) {
    if (row.device != device || !row.is_certain || row.is_model_in_stages) continue;
    if (row.bytes_per_step >= base::kLeastGrowthPerStep) lines.insert(row.line);
  }
  return lines;
}

PeakAllocation allocation_of(const Facts& facts, const DeviceFacts& device, std::uint32_t row) {
  PeakAllocation allocation;
  allocation.lifetime = row;
  allocation.born = device.trace.lifetimes.alloc[row];
  allocation.died =
      model::death(device.trace.lifetimes, row, model::default_liveness(device.trace));
  if (allocation.born != model::kNone) {
    allocation.stack = facts.trace.site(device.trace, allocation.born).stack;
  } else if (device.trace.lifetimes.block[row] != model::kNone) {
    // Only the final block has the allocation's site.
    allocation.stack = facts.trace.stack(device.trace, row);
  }
  allocation.size_bytes = facts.trace.lifetime_bytes(device.trace, row);
  return allocation;
}

// Whether the peak can be explained. A single allocation is not a history (recording_was_empty),
// and events and segments of a snapshot may contradict each other.
bool is_judged(const DeviceFacts& device, const report::PointInTime& point) {
  const auto unexplained = static_cast<double>(point.unexplained_bytes);
  return device.traffic.allocations > 1 &&
         std::abs(unexplained) <= kMostUnexplained * static_cast<double>(point.live_bytes);
}

}  // namespace

std::optional<Peak> Peak::of(const Facts& facts, const DeviceFacts& device) {
  const report::PointInTime* point = own_peak(facts, device);
  if (facts.trace.has_inferred_roles) point = peak_point(facts, device);
  if (point == nullptr || !point->event || point->live_bytes == 0) return std::nullopt;
  if (facts.trace.has_inferred_roles && !is_judged(device, *point)) return std::nullopt;
  return Peak(facts, device, *point);
}

Peak::Peak(const Facts& facts, const DeviceFacts& device, const report::PointInTime& point)
    : facts_(&facts),
      device_(&device),
      point_(&point),
      evidence_(&facts.evidence(device.trace)),
      event_(static_cast<std::uint32_t>(*point.event)),
      begins_(evidence::marks_of(facts.trace, device.trace, model::MarkKind::kBackwardBegin)),
      ends_(evidence::backward_ends(facts.trace, device.trace)),
      may_train_(findings::may_train(facts, device)),
      layers_(facts.trace) {
  const auto growing = growing_lines(facts, device.report.device);
  const auto liveness = model::default_liveness(device.trace);
  is_in_training_ = point.phase == "backward" || point.phase == "optimizer" ||
                    is_in_used_forward(evidence(), device, trace(), point);
  for (const std::uint32_t row : live_set(device.trace, liveness, std::int64_t{event_})) {
    const bool is_from_before = device.trace.lifetimes.alloc[row] == model::kNone;
    if (is_from_before && !is_inferred()) continue;
    const PeakAllocation allocation = allocation_of(facts, device, row);
    const bool is_saved = has(flags(allocation), model::LifetimeFlags::kSavedForBackward);
    if (is_saved && awaits_backward(allocation)) is_in_training_ = true;
    if (!growing.empty() && growing.contains(line_label(allocation))) continue;
    live_.push_back(allocation);
  }
}

bool Peak::is_of_optimizer(const PeakAllocation& allocation) const {
  if (!is_inferred()) return phase(allocation) == model::Phase::kOptimizer;
  return stacks().has(allocation.stack, evidence::StackFlag::kOptimizer);
}

bool Peak::is_of_torch_optimizer(const PeakAllocation& allocation) const {
  return is_of_optimizer(allocation) &&
         stacks().has(allocation.stack, evidence::StackFlag::kTorchOptimizer);
}

bool Peak::meets_backward(const PeakAllocation& allocation) const {
  const auto next = std::ranges::upper_bound(begins_, allocation.born);
  return next != begins_.end() && *next <= allocation.died;
}

bool Peak::awaits_backward(const PeakAllocation& allocation) const {
  const auto next = std::ranges::upper_bound(begins_, allocation.born);
  if (next == begins_.end() || *next <= event_ || *next > allocation.died) return false;
  // Memory that outlives both its backward and the next one is retained by a variable.
  const auto after = std::next(next);
  return after == begins_.end() || allocation.died <= *after;
}

std::uint32_t Peak::death_after_step(const PeakAllocation& allocation) const {
  return std::min(allocation.died, evidence().spans().end_of_step(allocation.born));
}

void Peak::for_each(const std::function<void(const PeakAllocation&)>& each) const {
  const model::Lifetimes& lifetimes = device_->trace.lifetimes;
  for (std::uint32_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    each(allocation_of(*facts_, *device_, row));
  }
}

std::uint64_t Peak::saving(const Death& death) const {
  return saving_of_absence([&](const PeakAllocation& allocation) {
    return Absence{death(allocation), allocation.died};
  });
}

std::uint64_t Peak::saving_of_absence(const Absent& absent) const {
  const std::uint64_t most = replay().peak_if([&](std::uint32_t row) {
    const auto [from, to] = absent(allocation_of(*facts_, *device_, row));
    return whatif::Absence{from, to};
  });
  return bytes() - std::min(bytes(), most);
}

std::vector<bool> claimed(const Peak& peak, const Explanations& explanations) {
  std::vector<bool> is_claimed(peak.live().size());
  for (const Explanation& each : explanations) {
    for (const std::uint32_t part : each.parts) is_claimed[part] = true;
  }
  return is_claimed;
}

}  // namespace plimsoll::findings
