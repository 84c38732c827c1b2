#include "analysis/growth/growth.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/growth/boundaries.h"
#include "base/trend.h"
#include "model/categories.h"
#include "model/layers.h"
#include "model/live_set.h"

namespace plimsoll::analysis::growth {
namespace {

using model::kNone;
using report::GrowthRow;

constexpr double kLeastTau = 0.8;
constexpr std::size_t kFewSteps = 8;  // below, counts must rise with the bytes

// What each group (a line, a layer, a category: `group_of` numbers them by the event that
// allocates, below `group_count`) has alive at each boundary, in one pass over the lifetimes: a
// lifetime adds to the first boundary it sees and takes away at the first one it does not see any
// more; running sums of that are the series.
class LiveAtBoundaries {
 public:
  template <typename GroupOf>
  LiveAtBoundaries(const model::Trace& trace, const model::DeviceTrace& device,
                   std::span<const Boundary> boundaries, GroupOf&& group_of)
      : width_(boundaries.size() + 1) {
    add_lifetimes(trace, device, boundaries, group_of);
    for (std::size_t first = 0; first < bytes_.size(); first += width_) {
      for (std::size_t i = first + 1; i < first + width_; ++i) {
        bytes_[i] += bytes_[i - 1];
        counts_[i] += counts_[i - 1];
      }
    }
  }

  std::size_t size() const { return groups_.size(); }
  std::uint32_t group(std::size_t row) const { return groups_[row]; }
  std::span<const std::int64_t> bytes(std::size_t row) const {
    return {bytes_.data() + row * width_, width_ - 1};
  }
  std::span<const std::int64_t> counts(std::size_t row) const {
    return {counts_.data() + row * width_, width_ - 1};
  }

 private:
  template <typename GroupOf>
  void add_lifetimes(const model::Trace& trace, const model::DeviceTrace& device,
                     std::span<const Boundary> boundaries, GroupOf&& group_of) {
    const model::Lifetimes& lifetimes = device.lifetimes;
    std::size_t first = 0;  // boundary after the birth; births only move on
    for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
      const std::uint32_t born = lifetimes.alloc[row];
      while (first < boundaries.size() && boundaries[first].event <= born) ++first;
      if (first == boundaries.size()) return;
      const std::uint32_t died = model::death(lifetimes, row, model::Liveness::kAllocated);
      if (died < boundaries[first].event) continue;  // kNone is larger than any event
      const auto beyond = std::ranges::upper_bound(boundaries, died, {}, &Boundary::event);
      const std::size_t event = device.first_event + born;
      add(group_of(event), first, static_cast<std::size_t>(beyond - boundaries.begin()),
          trace.held_bytes(device, row));
    }
  }

  // Alive at boundaries [first, beyond).
  void add(std::uint32_t group, std::size_t first, std::size_t beyond, std::uint64_t size_bytes) {
    if (group >= rows_.size()) rows_.resize(group + 1, kNone);
    std::uint32_t& row = rows_[group];
    if (row == kNone) {
      row = static_cast<std::uint32_t>(groups_.size());
      groups_.push_back(group);
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
  std::vector<std::uint32_t> rows_;  // by group
  std::vector<std::uint32_t> groups_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::int64_t> counts_;
};

bool grows(std::span<const std::int64_t> series) {
  return series.back() > series.front() && base::kendall_tau(series) >= kLeastTau;
}

// The groups that grow; `name_of` makes the key of a row.
template <typename GroupOf, typename NameOf>
std::vector<GrowthRow> growing(const PassContext& context, const model::DeviceTrace& device,
                               const Boundaries& boundaries, GroupOf&& group_of, NameOf&& name_of) {
  const LiveAtBoundaries live(context.trace, device, boundaries.kept, group_of);
  std::vector<std::int64_t> steps;
  for (const Boundary& boundary : boundaries.kept) steps.push_back(boundary.step);
  std::vector<GrowthRow> rows;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const auto series = live.bytes(i);
    if (!grows(series)) continue;
    if (series.size() < kFewSteps && !grows(live.counts(i))) continue;
    GrowthRow row;
    row.bytes_per_step = base::theil_sen_slope(series, steps);
    if (row.bytes_per_step <= 0) continue;
    row.device = device.device.ordinal;
    row.key = name_of(live.group(i));
    row.steps = series.size();
    row.first_bytes = series.front();
    row.last_bytes = series.back();
    row.confidence = base::kendall_tau(series);
    row.boundary = boundaries.name;
    rows.push_back(std::move(row));
  }
  std::ranges::sort(rows, [](const GrowthRow& a, const GrowthRow& b) {
    return a.bytes_per_step != b.bytes_per_step ? a.bytes_per_step > b.bytes_per_step
                                                : a.key < b.key;
  });
  if (rows.size() > context.options.top) rows.resize(context.options.top);
  return rows;
}

void append_lines(PassContext& context, const model::DeviceTrace& device,
                  const Boundaries& boundaries) {
  const auto& stacks = context.trace.events.stack;
  auto rows = growing(
      context, device, boundaries,
      [&](std::size_t event) { return context.lines.line(stacks[event]).value; },
      [&](std::uint32_t line) { return context.lines.label(model::LineId{line}); });
  for (GrowthRow& row : rows) row.line = row.key;
  std::ranges::move(rows, std::back_inserter(context.report.tables.growth));
}

void append_layers(PassContext& context, const model::DeviceTrace& device,
                   const Boundaries& boundaries) {
  if (!model::Layers::are_known(context.trace)) return;
  model::Layers layers(context.trace);
  auto rows = growing(
      context, device, boundaries, [&](std::size_t event) { return layers.of(event).value; },
      [&](std::uint32_t layer) {
        return layer == 0 ? std::string("[no layer]") : layers.path(model::LayerId{layer});
      });
  std::ranges::move(rows, std::back_inserter(context.report.tables.growth_by_layer));
}

void append_categories(PassContext& context, const model::DeviceTrace& device,
                       const Boundaries& boundaries) {
  const model::Trace& trace = context.trace;
  if (!trace.events.category.present()) return;
  auto rows = growing(
      context, device, boundaries,
      [&](std::size_t event) {
        const model::StringId word = trace.events.category[event];
        return trace.strings[word] == model::kUnknownCategory ? 0 : word.value;
      },
      [&](std::uint32_t word) {
        return std::string(word == 0 ? model::kUnknownCategory
                                     : trace.strings[model::StringId{word}]);
      });
  std::ranges::move(rows, std::back_inserter(context.report.tables.growth_by_category));
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
      append_lines(context, device, boundaries);
      append_layers(context, device, boundaries);
      append_categories(context, device, boundaries);
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<GrowthPass>(); }

}  // namespace plimsoll::analysis::growth
