#include "analysis/growth/growth.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/evidence/stack_facts.h"
#include "analysis/growth/boundaries.h"
#include "analysis/growth/queue.h"
#include "analysis/growth/survivors.h"
#include "base/growth_rule.h"
#include "base/natural_order.h"
#include "model/categories.h"
#include "model/layers.h"

namespace plimsoll::analysis::growth {
namespace {

using report::GrowthRow;

// The series of one group. The object is reused for each group in turn, because a file may have as
// many lines as allocations.
class Site {
 public:
  explicit Site(std::size_t steps)
      : ages_(base::ages_of(steps)), born_counts_(steps), born_bytes_(steps), aged_counts_(steps) {}

  void fill(std::span<const Survivor> group) {
    first_bytes_ = last_bytes_ = appended_bytes_ = model_bytes_ = 0;
    retired_ = 0;
    last_count_ = 0;
    for (auto* series : {&born_counts_, &born_bytes_, &aged_counts_}) std::ranges::fill(*series, 0);
    for (const Survivor& survivor : group) add(survivor);
    std::partial_sum(aged_counts_.begin(), aged_counts_.end(), aged_counts_.begin());
  }
  base::SiteSeries series() const {
    return {born_counts_, born_bytes_, aged_counts_, retired_, false};
  }
  std::int64_t first_bytes() const { return first_bytes_; }        // live at the end of the warm-up
  std::int64_t appended_bytes() const { return appended_bytes_; }  // of the last step
  std::int64_t last_bytes() const { return last_bytes_; }
  std::uint64_t last_count() const { return last_count_; }
  // Steps after the warm-up that have left allocations behind.
  std::uint64_t stages() const {
    const auto later = std::span(born_counts_).subspan(ages_.warm_up + 1);
    return static_cast<std::uint64_t>(
        std::ranges::count_if(later, [](std::int64_t count) { return count > 0; }));
  }
  std::int64_t model_bytes() const { return model_bytes_; }  // of the last step

 private:
  void add(const Survivor& survivor) {
    const std::size_t steps = born_counts_.size();
    if (survivor.first == 0 && survivor.beyond > ages_.warm_up && survivor.beyond < steps)
      ++retired_;
    if (survivor.first <= ages_.warm_up && survivor.beyond > ages_.warm_up)
      first_bytes_ += survivor.size_bytes;
    if (survivor.beyond == steps) {
      last_bytes_ += survivor.size_bytes;
      if (survivor.is_of_model) model_bytes_ += survivor.size_bytes;
      if (survivor.is_appended) appended_bytes_ += survivor.size_bytes;
      ++last_count_;
      born_counts_[survivor.first] += 1;
      born_bytes_[survivor.first] += survivor.size_bytes;
    }
    // Allocations of the first step usually stay, and are not part of the growth.
    const std::size_t aged = survivor.first + ages_.of_age;
    if (survivor.first == 0 || aged >= survivor.beyond) return;
    aged_counts_[aged] += 1;
    if (survivor.beyond < steps) aged_counts_[survivor.beyond] -= 1;
  }

  base::Ages ages_;
  std::vector<std::int64_t> born_counts_, born_bytes_, aged_counts_;
  std::int64_t first_bytes_ = 0;
  std::int64_t last_bytes_ = 0;
  std::int64_t appended_bytes_ = 0;
  std::int64_t model_bytes_ = 0;
  std::int64_t retired_ = 0;
  std::uint64_t last_count_ = 0;
};

// Long-lived memory of all groups: the bytes allocated and the bytes freed in each step between the
// warm-up and the point from which later allocations are too young to judge.
struct LongLived {
  LongLived(const std::vector<Survivor>& survivor, std::size_t steps) {
    const base::Ages ages = base::ages_of(steps);
    if (steps < base::kFewestGrowthSteps) return;
    first = ages.warm_up;
    gone_bytes.resize(steps - ages.of_age - first);
    for (const Survivor& each : survivor) {
      if (each.beyond - each.first < ages.of_age) continue;
      if (is_between(each.first)) born_bytes += each.size_bytes;
      // If the tensors of an entry are no longer replaced immediately, the entry still has one, so
      // no older memory is freed.
      if (is_between(each.beyond) && !each.is_entry) {
        gone_bytes[each.beyond - first] += each.size_bytes;
      }
    }
  }
  bool is_between(std::size_t step) const {
    return step >= first && step - first < gone_bytes.size();
  }

  std::size_t first = 0;  // the first of these steps
  std::int64_t born_bytes = 0;
  std::vector<std::int64_t> gone_bytes;  // by step
};

// A device and its steps.
struct Steps {
  const model::DeviceTrace& device;
  Boundaries boundaries;
  std::vector<Survivor> survivor;
  LongLived long_lived;
};

// Whether the memory that the site leaves behind only replaces older memory of any line, such as a
// buffer that another line has filled, or weights that are replaced one by one. Then the total of
// long-lived memory does not grow. Bytes freed in one step count only up to four times what the
// site leaves in a step, so that freeing data once does not hide a leak.
bool is_exchange(const LongLived& all, std::span<const std::int64_t> born_bytes) {
  constexpr std::int64_t kMostAtOnce = 4;
  const std::size_t count = all.gone_bytes.size();
  const auto between = born_bytes.subspan(all.first, count);
  const std::int64_t own = std::accumulate(between.begin(), between.end(), std::int64_t{0});
  const std::int64_t most = kMostAtOnce * own / static_cast<std::int64_t>(count);
  std::int64_t net = all.born_bytes;
  for (const std::int64_t bytes : all.gone_bytes) net -= std::min(bytes, most);
  return net * 2 < own;
}

// Whether a model gets new parts in a few stages, with steps without new parts in between: a head
// for each task, a block for each resolution. Such training is intended. Adding to a model at most
// steps, or at short intervals throughout, is a mistake in the loop.
bool is_model_in_stages(const Site& site, const base::Growth& growth, std::uint32_t steps_each) {
  constexpr double kLeastOfModel = 0.8;
  constexpr std::size_t kMostStages = 20;
  constexpr std::size_t kShortInterval = 10;
  const auto model = static_cast<double>(site.model_bytes());
  if (model < kLeastOfModel * static_cast<double>(site.last_bytes())) return false;
  if (growth.birth_steps * 2 > growth.compared_steps) return false;
  const std::size_t steps = growth.compared_steps * steps_each;
  return growth.birth_steps <= kMostStages || steps > kShortInterval * growth.birth_steps;
}

// The groups that grow, steepest first. `group_of` numbers them by lifetime, `name_of` makes the
// key of a row, and `describe` fills in the rest of the row.
template <typename GroupOf, typename NameOf, typename Describe>
std::vector<GrowthRow> growing(Steps& steps, GroupOf&& group_of, NameOf&& name_of,
                               Describe&& describe) {
  for (Survivor& survivor : steps.survivor) survivor.group = group_of(survivor.newest);
  std::ranges::sort(steps.survivor, {}, &Survivor::group);
  const Boundaries& boundaries = steps.boundaries;
  std::vector<GrowthRow> rows;
  Site site(boundaries.events.size());
  for (auto begin = steps.survivor.begin(); begin != steps.survivor.end();) {
    const auto end =
        std::ranges::upper_bound(begin, steps.survivor.end(), begin->group, {}, &Survivor::group);
    site.fill({begin, end});
    auto growth = base::growth_of(site.series());
    if (growth && is_exchange(steps.long_lived, site.series().born_bytes)) growth.reset();
    const bool has_survivors = growth.has_value();
    if (!growth) growth = growth_of_queue({begin, end}, boundaries.events.size());
    if (growth) {
      GrowthRow row;
      row.device = steps.device.device.ordinal;
      row.key = name_of(begin->group);
      row.steps = boundaries.steps;
      row.steps_each = boundaries.steps_each;
      // Steps that are not compared come before the others.
      const std::size_t compared = boundaries.events.size();
      row.first_step = boundaries.steps -
                       (compared - 1 - base::ages_of(compared).warm_up) * boundaries.steps_each;
      row.first_bytes = site.first_bytes();
      row.last_bytes = site.last_bytes();
      row.bytes_per_step = growth->bytes_per_step / boundaries.steps_each;
      const base::RateInterval interval =
          has_survivors ? base::interval_of(site.series())
                        : base::RateInterval{growth->bytes_per_step, growth->bytes_per_step};
      row.low_bytes_per_step = interval.low_bytes_per_step / boundaries.steps_each;
      row.high_bytes_per_step = interval.high_bytes_per_step / boundaries.steps_each;
      row.grown_bytes = growth->grown_bytes;
      row.survivors = growth->survivors;
      row.is_certain = growth->is_certain;
      row.grown_steps = growth->birth_steps;
      row.compared_steps = growth->compared_steps;
      row.is_model_in_stages = is_model_in_stages(site, *growth, boundaries.steps_each);
      row.stages = site.stages();
      row.last_count = site.last_count();
      row.is_appended = site.appended_bytes() * 2 > growth->grown_bytes;
      // These are the keys and values of a text that a decoder extends, which is not a leak.
      if (boundaries.are_calls && row.is_appended) {
        begin = end;
        continue;
      }
      row.is_of_calls = boundaries.are_calls;
      row.boundary = boundaries.name;
      describe(row, std::span<const Survivor>(begin, end));
      rows.push_back(std::move(row));
    }
    begin = end;
  }
  std::ranges::sort(rows, [](const GrowthRow& a, const GrowthRow& b) {
    return a.bytes_per_step != b.bytes_per_step ? a.bytes_per_step > b.bytes_per_step
                                                : base::natural_less(a.key, b.key);
  });
  return rows;
}

constexpr auto kNothingMore = [](GrowthRow&, std::span<const Survivor>) {};

// The caller of the line that accounts for most of its memory live at the end.
std::string caller_of(const PassContext& context, const Steps& steps,
                      std::span<const Survivor> line) {
  std::map<std::string, std::int64_t> callers;
  for (const Survivor& survivor : line) {
    if (survivor.beyond < steps.boundaries.events.size()) continue;
    const model::Site& site = context.trace.birth(steps.device, survivor.newest);
    callers[context.lines.caller(site.stack)] += survivor.size_bytes;
  }
  const auto most =
      std::ranges::max_element(callers, {}, [](const auto& caller) { return caller.second; });
  return most == callers.end() ? std::string() : most->first;
}

void append_lines(PassContext& context, Steps& steps) {
  std::optional<evidence::StackFacts> stacks;  // found for the first line that grows
  auto rows = growing(
      steps,
      [&](std::uint32_t row) {
        return context.lines.line(context.trace.birth(steps.device, row).stack).value;
      },
      [&](std::uint32_t line) { return context.lines.label(model::LineId{line}); },
      [&](GrowthRow& row, std::span<const Survivor> line) {
        row.line = row.key;
        row.caller = caller_of(context, steps, line);
        const model::Site& site = context.trace.birth(steps.device, line.back().newest);
        if (!stacks) stacks.emplace(context.trace, context.lines);
        row.is_of_lbfgs = stacks->has(site.stack, evidence::StackFlag::kLbfgs);
      });
  std::ranges::move(rows, std::back_inserter(context.report.tables.growth));
}

void append_layers(PassContext& context, Steps& steps) {
  if (!model::Layers::are_known(context.trace)) return;
  model::Layers layers(context.trace);
  auto rows = growing(
      steps, [&](std::uint32_t row) { return layers.of(steps.device, row).value; },
      [&](std::uint32_t layer) {
        return layer == 0 ? std::string("[no layer]") : layers.path(model::LayerId{layer});
      },
      kNothingMore);
  std::ranges::move(rows, std::back_inserter(context.report.tables.growth_by_layer));
}

void append_categories(PassContext& context, Steps& steps) {
  const model::Trace& trace = context.trace;
  if (!trace.has_categories()) return;
  auto rows = growing(
      steps,
      [&](std::uint32_t row) {
        const model::StringId word = trace.category(steps.device, row);
        return trace.strings[word] == model::kUnknownCategory ? 0 : word.value;
      },
      [&](std::uint32_t word) {
        return std::string(word == 0 ? model::kUnknownCategory
                                     : trace.strings[model::StringId{word}]);
      },
      kNothingMore);
  std::ranges::move(rows, std::back_inserter(context.report.tables.growth_by_category));
}

class GrowthPass final : public Pass {
 public:
  const char* name() const override { return "growth"; }
  std::string why_not(const model::Trace& trace) const override {
    std::string reason = "needs events: this file has only the final state";
    for (const model::DeviceTrace& device : trace.devices) {
      const Boundaries boundaries = find_boundaries(trace, device);
      if (!boundaries.events.empty()) return {};
      if (device.events.size() > 0) reason = boundaries.why_none;
    }
    return reason;
  }
  std::string unanswered(const PassContext& context) const override {
    std::string text;
    for (const model::DeviceTrace& device : context.trace.devices) {
      if (context.options.device && device.device != *context.options.device) continue;
      if (device.events.size() == 0) continue;
      const Boundaries boundaries = find_boundaries(context.trace, device);
      if (!boundaries.events.empty()) continue;
      text +=
          (text.empty() ? "on " : "; on ") + to_string(device.device) + ": " + boundaries.why_none;
    }
    return text;
  }
  OptionSet uses() const override { return OptionSet::kDevice; }
  void clear(report::Report& report) const override {
    report.tables.growth.clear();
    report.tables.growth_by_layer.clear();
    report.tables.growth_by_category.clear();
  }
  Status run(PassContext& context) const override {
    for (const model::DeviceTrace& device : context.trace.devices) {
      if (context.options.device && device.device != *context.options.device) continue;
      const Boundaries boundaries = find_boundaries(context.trace, device);
      if (boundaries.events.empty()) continue;
      std::vector<Survivor> survivor =
          survivors_at_ends(context.trace, device, context.lines, boundaries.events);
      const LongLived long_lived(survivor, boundaries.events.size());
      Steps steps{device, boundaries, std::move(survivor), long_lived};
      append_lines(context, steps);
      append_layers(context, steps);
      append_categories(context, steps);
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<GrowthPass>(); }

}  // namespace plimsoll::analysis::growth
