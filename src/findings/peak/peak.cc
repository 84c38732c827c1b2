#include "findings/peak/peak.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "base/growth_rule.h"
#include "findings/growth/retained.h"
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
    if (grows_enough(row)) lines.insert(row.line);
  }
  return lines;
}

// Whether the peak can be explained. A single allocation is not a history (recording_was_empty),
// and events and segments of a snapshot may contradict each other.
bool is_judged(const DeviceFacts& device, const report::PointInTime& point) {
  const auto unexplained = static_cast<double>(point.unexplained_bytes);
  return allocations_of(device.trace) > 1 &&
         std::abs(unexplained) <= kMostUnexplained * static_cast<double>(point.live_bytes);
}

}  // namespace

bool Allocation::is_of_model() const {
  return is(model::kParameter, model::kBuffer, model::kGradient, model::kOptimizerState);
}

bool Allocation::is_of_training() const {
  return is(model::kActivation, model::kActivationGradient, model::kTemporaryCategory);
}

std::string Allocation::caller() const {
  std::string caller = known->lines.caller(stack);
  return caller.empty() ? label() : caller;
}

std::uint64_t bytes_of(const Parts& parts) {
  std::uint64_t bytes = 0;
  for (const Allocation& each : parts) bytes += each.size_bytes;
  return bytes;
}

std::vector<std::uint32_t> rows_of(const Parts& parts) {
  std::vector<std::uint32_t> rows;
  for (const Allocation& each : parts) rows.push_back(each.lifetime);
  return rows;
}

const Allocation& largest_of(const Parts& parts) {
  return *std::ranges::max_element(parts, {}, &Allocation::size_bytes);
}

std::optional<Peak> Peak::of(const Facts& facts, const DeviceFacts& device) {
  const report::PointInTime* point = peak_point(facts, device);
  const bool is_snapshot = facts.trace.has_inferred_roles;
  if (!is_snapshot && !facts.trace.has_phases()) return std::nullopt;
  if (point == nullptr || !point->event || point->live_bytes == 0) return std::nullopt;
  if (is_snapshot && !is_judged(device, *point)) return std::nullopt;
  return Peak(facts, device, *point);
}

Peak::Peak(const Facts& facts, const DeviceFacts& device, const report::PointInTime& point)
    : facts_(&facts),
      device_(&device),
      point_(&point),
      known_(&facts.evidence(device.trace)),
      event_(static_cast<std::uint32_t>(*point.event)),
      begins_(evidence::marks_of(facts.trace, device.trace, model::MarkKind::kBackwardBegin)),
      may_train_(findings::may_train(facts, device)),
      layers_(facts.trace) {
  const auto growing = growing_lines(facts, device.report.device);
  const auto liveness = model::default_liveness(device.trace);
  is_in_training_ = point.phase == "backward" || point.phase == "optimizer" ||
                    is_in_used_forward(evidence(), device, trace(), point);
  const model::Lifetimes& lifetimes = device.trace.lifetimes;
  for (const std::uint32_t row : live_set(device.trace, liveness, std::int64_t{event_})) {
    if (lifetimes.alloc[row] == model::kNone && !is_inferred()) continue;
    const Allocation each = allocation(row);
    const bool is_saved = has(lifetimes.flags[row], model::LifetimeFlags::kSavedForBackward);
    if (is_saved && awaits_backward(each)) is_in_training_ = true;
    if (!growing.empty() && growing.contains(each.label())) continue;
    live_.push_back(each);
  }
}

Allocation Peak::allocation(std::uint32_t lifetime) const {
  const model::DeviceTrace& device = device_->trace;
  const model::Lifetimes& lifetimes = device.lifetimes;
  Allocation allocation;
  allocation.known = known_;
  allocation.lifetime = lifetime;
  allocation.born = lifetimes.alloc[lifetime];
  allocation.died = model::death(lifetimes, lifetime, model::default_liveness(device));
  // Of memory from before the history, only the final block has the site.
  const bool has_site =
      allocation.born != model::kNone || lifetimes.block[lifetime] != model::kNone;
  if (has_site) allocation.stack = trace().stack(device, lifetime);
  allocation.size_bytes = trace().lifetime_bytes(device, lifetime);
  return allocation;
}

bool Peak::is_of_optimizer(const Allocation& allocation) const {
  return is_inferred() ? allocation.has(evidence::StackFlag::kOptimizer)
                       : allocation.phase() == model::Phase::kOptimizer;
}

bool Peak::is_of_torch_optimizer(const Allocation& allocation) const {
  return is_of_optimizer(allocation) && allocation.has(evidence::StackFlag::kTorchOptimizer);
}

bool Peak::meets_backward(const Allocation& allocation) const {
  const auto next = std::ranges::upper_bound(begins_, allocation.born);
  return next != begins_.end() && *next <= allocation.died;
}

bool Peak::awaits_backward(const Allocation& each) const {
  const auto next = std::ranges::upper_bound(begins_, each.born);
  if (next == begins_.end() || *next <= event_ || *next > each.died) return false;
  // Memory that outlives both its backward and the next one is retained by a variable.
  return std::next(next) == begins_.end() || each.died <= *std::next(next);
}

std::uint32_t Peak::death_after_step(const Allocation& allocation) const {
  return std::min(allocation.died, spans().end_of_step(allocation.born));
}

std::set<std::uint32_t> claimed(const Explanations& explanations, std::optional<Kind> kind) {
  std::set<std::uint32_t> rows;
  for (const Explanation& each : explanations) {
    if (kind && each.kind != *kind) continue;
    for (const Allocation& part : each.parts) rows.insert(part.lifetime);
  }
  return rows;
}

}  // namespace plimsoll::findings
