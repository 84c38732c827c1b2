#include "analysis/growth/growth.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "analysis/growth/boundaries.h"
#include "analysis/growth/survivors.h"
#include "model/categories.h"
#include "model/layers.h"
#include "model/live_set.h"

namespace plimsoll::analysis::growth {
namespace {

using model::kNone;
using report::GrowthRow;

// What each group (a line, a layer, a category: `group_of` numbers them by the event that
// allocates) has at each boundary, in one pass over the lifetimes.
class Sites {
 public:
  template <typename GroupOf>
  Sites(const model::Trace& trace, const model::DeviceTrace& device, const Boundaries& boundaries,
        GroupOf&& group_of)
      : steps_(boundaries.events.size()), ages_(ages_of(steps_)) {
    const std::vector<std::uint32_t>& ends = boundaries.events;
    const model::Lifetimes& lifetimes = device.lifetimes;
    std::size_t step = 0;  // of the birth; births only move on
    for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
      const std::uint32_t born = lifetimes.alloc[row];
      while (step < steps_ && ends[step] <= born) ++step;
      if (step == steps_) break;
      const std::uint32_t died = model::death(lifetimes, row, model::Liveness::kAllocated);
      if (died < ends[step]) continue;  // kNone is larger than any event
      const auto beyond = std::ranges::upper_bound(ends, died) - ends.begin();
      add(group_of(device.first_event + born), step, static_cast<std::size_t>(beyond),
          trace.held_bytes(device, row));
    }
    for (Site& site : sites_) {
      std::partial_sum(site.aged_counts.begin(), site.aged_counts.end(), site.aged_counts.begin());
    }
  }

  struct Site {
    std::uint32_t group;
    std::vector<std::int64_t> born_counts, born_bytes, aged_counts;
    std::int64_t first_bytes = 0;  // live at the end of the warm-up
    std::int64_t last_bytes = 0;
  };
  const std::vector<Site>& all() const { return sites_; }

 private:
  // Born in step `first`, live at the ends of steps [first, beyond).
  void add(std::uint32_t group, std::size_t first, std::size_t beyond, std::uint64_t size_bytes) {
    Site& site = site_of(group);
    const auto size = static_cast<std::int64_t>(std::min(size_bytes, kSaneBytes));
    if (first <= ages_.warm_up && beyond > ages_.warm_up) site.first_bytes += size;
    if (beyond == steps_) {
      site.last_bytes += size;
      site.born_counts[first] += 1;
      site.born_bytes[first] += size;
    }
    // What the first step makes stays, most often, and is none of the growth.
    const std::size_t aged = first + ages_.of_age;
    if (first == 0 || aged >= beyond) return;
    site.aged_counts[aged] += 1;
    if (beyond < steps_) site.aged_counts[beyond] -= 1;
  }

  Site& site_of(std::uint32_t group) {
    if (group >= rows_.size()) rows_.resize(group + 1, kNone);
    std::uint32_t& row = rows_[group];
    if (row == kNone) {
      row = static_cast<std::uint32_t>(sites_.size());
      const std::vector<std::int64_t> zeros(steps_);
      sites_.push_back({group, zeros, zeros, zeros});
    }
    return sites_[row];
  }

  static constexpr std::uint64_t kSaneBytes = std::uint64_t{1} << 48;  // sums can't overflow then

  std::size_t steps_;
  Ages ages_;
  std::vector<std::uint32_t> rows_;  // by group
  std::vector<Site> sites_;
};

// The groups that grow, steepest first; `name_of` makes the key of a row.
template <typename GroupOf, typename NameOf>
std::vector<GrowthRow> growing(const PassContext& context, const model::DeviceTrace& device,
                               const Boundaries& boundaries, GroupOf&& group_of, NameOf&& name_of) {
  std::vector<GrowthRow> rows;
  const Sites sites(context.trace, device, boundaries, group_of);
  for (const Sites::Site& site : sites.all()) {
    const auto growth = growth_of({site.born_counts, site.born_bytes, site.aged_counts});
    if (!growth) continue;
    GrowthRow row;
    row.device = device.device.ordinal;
    row.key = name_of(site.group);
    row.steps = boundaries.events.size() * boundaries.steps_each;
    row.first_bytes = site.first_bytes;
    row.last_bytes = site.last_bytes;
    row.bytes_per_step = growth->bytes_per_step / boundaries.steps_each;
    row.low_bytes_per_step = growth->low_bytes_per_step / boundaries.steps_each;
    row.high_bytes_per_step = growth->high_bytes_per_step / boundaries.steps_each;
    row.grown_bytes = growth->grown_bytes;
    row.survivors = growth->survivors;
    row.is_certain = growth->is_certain;
    row.boundary = boundaries.name;
    rows.push_back(std::move(row));
  }
  std::ranges::sort(rows, [](const GrowthRow& a, const GrowthRow& b) {
    return a.bytes_per_step != b.bytes_per_step ? a.bytes_per_step > b.bytes_per_step
                                                : a.key < b.key;
  });
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
      if (!boundaries.events.empty()) return {};
      if (device.event_count > 0) reason = boundaries.why_none;
    }
    return reason;
  }
  Status run(PassContext& context) const override {
    for (const model::DeviceTrace& device : context.trace.devices) {
      if (context.options.device && device.device != *context.options.device) continue;
      const Boundaries boundaries = find_boundaries(context.trace, device);
      if (boundaries.events.empty()) continue;
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
