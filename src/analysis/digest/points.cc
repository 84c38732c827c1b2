#include "analysis/digest/points.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "analysis/replay.h"
#include "model/live_set.h"
#include "model/steps.h"

namespace plimsoll::analysis::digest {
namespace {

using model::Phase;

struct Highest {
  std::int64_t event = model::kBeforeFirst;
  std::uint64_t bytes = 0;
};

struct StepBytes {
  std::uint64_t bytes = 0;
  std::int64_t event = 0;
};

// The highest point of each phase, and the bytes at the ends of steps, both in steady steps.
class SteadySteps {
 public:
  SteadySteps(const model::Trace& trace, const model::DeviceTrace& device)
      : ends_(model::step_ends(trace, device)) {
    const std::size_t warm_up = (ends_.size() + 3) / 4;
    first_ = ends_.empty() ? 0 : ends_[warm_up - 1].event;
    const std::uint32_t beyond =
        ends_.empty() ? static_cast<std::uint32_t>(device.events.size()) : ends_.back().event;
    next_end_ = warm_up;
    const model::Lifetimes& lifetimes = device.lifetimes;
    for (std::size_t row = 0; row < lifetimes.baseline_count; ++row) {
      if (death(lifetimes, row, model::default_liveness(device)) == model::kBeforeRecording)
        continue;
      total_ += trace.lifetime_bytes(device, row);
    }
    replay(
        device, model::default_liveness(device),
        [&](std::uint32_t row, std::uint32_t event) {
          pass_ends(event);
          total_ += trace.lifetime_bytes(device, row);
          if (event < first_ || event >= beyond) return;
          Highest& highest = highest_[static_cast<std::size_t>(trace.site(device, event).phase)];
          if (total_ > highest.bytes) highest = {event, total_};
        },
        [&](std::uint32_t row, std::uint32_t event) {
          pass_ends(event);
          total_ -= trace.lifetime_bytes(device, row);
        });
    pass_ends(static_cast<std::uint32_t>(device.events.size()));
  }

  const Highest& highest(Phase phase) const { return highest_[static_cast<std::size_t>(phase)]; }
  std::vector<StepBytes> ends() { return std::move(bytes_); }

 private:
  void pass_ends(std::uint32_t event) {
    for (; next_end_ < ends_.size() && ends_[next_end_].event <= event; ++next_end_) {
      bytes_.push_back({total_, std::int64_t{ends_[next_end_].event} - 1});
    }
  }

  std::vector<model::StepEnd> ends_;
  std::uint32_t first_ = 0;
  std::size_t next_end_ = 0;
  std::uint64_t total_ = 0;  // sums wrap: a hostile file may have any size
  std::array<Highest, base::kPhaseNames.size()> highest_;
  std::vector<StepBytes> bytes_;
};

}  // namespace

std::vector<Point> find_digest_points(const model::Trace& trace, const model::DeviceTrace& device,
                                      const report::DeviceReport& totals) {
  std::vector<Point> points;
  const bool has_peak = !(totals.has_unknown_peak() && device.has_final_state);
  if (has_peak) {
    const auto& event = totals.live_totals().peak_event;
    points.push_back({"peak", event ? static_cast<std::int64_t>(*event) : model::kBeforeFirst});
  }
  if (device.events.size() == 0) return points;
  SteadySteps steady(trace, device);
  if (trace.has_phases()) {
    for (const Phase phase : {Phase::kData, Phase::kForward, Phase::kBackward, Phase::kOptimizer}) {
      const Highest& highest = steady.highest(phase);
      if (highest.bytes > 0) points.push_back({std::string(name_of(phase)), highest.event});
    }
  }
  std::vector<StepBytes> ends = steady.ends();
  if (!ends.empty()) {
    std::ranges::sort(ends, {},
                      [](const StepBytes& end) { return std::pair(end.bytes, end.event); });
    points.push_back({"step end", ends[(ends.size() - 1) / 2].event});
  }
  const auto actions = device.events.action.span();
  const auto failure = std::find(actions.rbegin(), actions.rend(), model::Action::kOom);
  if (failure != actions.rend()) points.push_back({"oom", actions.rend() - failure - 1});
  points.push_back({"end", static_cast<std::int64_t>(device.events.size()) - 1});
  return points;
}

}  // namespace plimsoll::analysis::digest
