#include "analysis/growth/growth.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/growth/boundaries.h"
#include "analysis/growth/trend.h"
#include "model/live_set.h"

namespace plimsoll::analysis::growth {
namespace {

using model::kNone;
using report::GrowthRow;

constexpr double kLeastTau = 0.8;
constexpr std::size_t kFewSteps = 8;  // below, counts must rise with the bytes

// What each line has alive at each boundary, in one pass over the lifetimes: a lifetime adds to the
// first boundary it sees and takes away at the first one it does not see any more; running sums of
// that are the series.
class LiveAtBoundaries {
 public:
  LiveAtBoundaries(const PassContext& context, const model::DeviceTrace& device,
                   std::span<const Boundary> boundaries)
      : width_(boundaries.size() + 1), rows_(context.lines.line_count(), kNone) {
    add_lifetimes(context, device, boundaries);
    for (std::size_t first = 0; first < bytes_.size(); first += width_) {
      for (std::size_t i = first + 1; i < first + width_; ++i) {
        bytes_[i] += bytes_[i - 1];
        counts_[i] += counts_[i - 1];
      }
    }
  }

  std::size_t size() const { return lines_.size(); }
  model::LineId line(std::size_t row) const { return lines_[row]; }
  std::span<const std::int64_t> bytes(std::size_t row) const {
    return {bytes_.data() + row * width_, width_ - 1};
  }
  std::span<const std::int64_t> counts(std::size_t row) const {
    return {counts_.data() + row * width_, width_ - 1};
  }

 private:
  void add_lifetimes(const PassContext& context, const model::DeviceTrace& device,
                     std::span<const Boundary> boundaries) {
    const model::Lifetimes& lifetimes = device.lifetimes;
    const model::Events& events = context.trace.events;
    std::size_t first = 0;  // boundary after the birth; births only move on
    for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
      const std::uint32_t born = lifetimes.alloc[row];
      while (first < boundaries.size() && boundaries[first].event <= born) ++first;
      if (first == boundaries.size()) return;
      const std::uint32_t died = model::death(lifetimes, row, model::Liveness::kAllocated);
      if (died < boundaries[first].event) continue;  // kNone is larger than any event
      const auto beyond = std::ranges::upper_bound(boundaries, died, {}, &Boundary::event);
      const std::size_t event = device.first_event + born;
      add(context.lines.line(events.stack[event]), first,
          static_cast<std::size_t>(beyond - boundaries.begin()), events.size_bytes[event]);
    }
  }

  // Alive at boundaries [first, beyond).
  void add(model::LineId line, std::size_t first, std::size_t beyond, std::uint64_t size_bytes) {
    std::uint32_t& row = rows_[line.index()];
    if (row == kNone) {
      row = static_cast<std::uint32_t>(lines_.size());
      lines_.push_back(line);
      bytes_.resize(bytes_.size() + width_);
      counts_.resize(counts_.size() + width_);
    }
    const auto size = static_cast<std::int64_t>(std::min(size_bytes, kSaneBytes));
    bytes_[row * width_ + first] += size;
    bytes_[row * width_ + beyond] -= size;
    counts_[row * width_ + first] += 1;
    counts_[row * width_ + beyond] -= 1;
  }

  static constexpr std::uint64_t kSaneBytes = std::uint64_t{1} << 48;  // sums can't overflow then

  std::size_t width_;                // boundaries, and a place for what outlives them all
  std::vector<std::uint32_t> rows_;  // by line
  std::vector<model::LineId> lines_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::int64_t> counts_;
};

bool grows(std::span<const std::int64_t> series) {
  return series.back() > series.front() && kendall_tau(series) >= kLeastTau;
}

std::vector<GrowthRow> growing_lines(const PassContext& context, const model::DeviceTrace& device,
                                     const Boundaries& boundaries) {
  const LiveAtBoundaries live(context, device, boundaries.kept);
  std::vector<GrowthRow> rows;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const auto series = live.bytes(i);
    if (!grows(series)) continue;
    if (series.size() < kFewSteps && !grows(live.counts(i))) continue;
    GrowthRow row;
    row.bytes_per_step = theil_sen_slope(series, boundaries.kept);
    if (row.bytes_per_step <= 0) continue;
    row.device = device.device.ordinal;
    row.line = context.lines.label(live.line(i));
    row.steps = series.size();
    row.first_bytes = series.front();
    row.last_bytes = series.back();
    row.confidence = kendall_tau(series);
    row.boundary = boundaries.name;
    rows.push_back(std::move(row));
  }
  std::ranges::sort(rows, [](const GrowthRow& a, const GrowthRow& b) {
    return a.bytes_per_step != b.bytes_per_step ? a.bytes_per_step > b.bytes_per_step
                                                : a.line < b.line;
  });
  if (rows.size() > context.options.top) rows.resize(context.options.top);
  return rows;
}

class GrowthPass final : public Pass {
 public:
  const char* name() const override { return "growth"; }
  std::string why_not(const model::Trace& trace) const override {
    std::string reason = "needs events: this file holds only the final state";
    for (const model::DeviceTrace& device : trace.devices) {
      const Boundaries boundaries = find_boundaries(trace, device);
      if (!boundaries.kept.empty()) return {};
      if (device.event_count > 0) reason = boundaries.why_none;
    }
    return reason;
  }
  Status run(PassContext& context) const override {
    for (const model::DeviceTrace& device : context.trace.devices) {
      if (context.options.device && device.device != *context.options.device) continue;
      const Boundaries boundaries = find_boundaries(context.trace, device);
      if (boundaries.kept.empty()) continue;
      auto rows = growing_lines(context, device, boundaries);
      std::ranges::move(rows, std::back_inserter(context.report.tables.growth));
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<GrowthPass>(); }

}  // namespace plimsoll::analysis::growth
