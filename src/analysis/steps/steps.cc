#include "analysis/steps/steps.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "analysis/replay.h"
#include "model/categories.h"
#include "model/live_set.h"
#include "model/steps.h"

namespace plimsoll::analysis::steps {
namespace {

using model::kNone;
using model::StringId;
using report::CategoryBytes;
using report::StepRow;

constexpr std::size_t kMostRows = 10'000;

// Numbers categories from 0; number 0 is unknown, whether the file states that or nothing.
class Categories {
 public:
  explicit Categories(const model::Trace& trace)
      : trace_(trace), numbers_(trace.strings.size(), kNone) {
    numbers_[0] = 0;
    names_.emplace_back(model::kUnknownCategory);
  }
  std::uint32_t number(StringId word) {
    std::uint32_t& number = numbers_[word.index()];
    if (number != kNone) return number;
    const std::string_view name = trace_.strings[word];
    if (name == model::kUnknownCategory) return number = 0;
    number = static_cast<std::uint32_t>(names_.size());
    names_.emplace_back(name);
    return number;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  const model::Trace& trace_;
  std::vector<std::uint32_t> numbers_;  // by the category's string
  std::vector<std::string> names_;
};

class DeviceSteps {
 public:
  DeviceSteps(const model::Trace& trace, const model::DeviceTrace& device)
      : trace_(trace), device_(device), categories_(trace) {
    const model::Lifetimes& lifetimes = device.lifetimes;
    category_of_.resize(lifetimes.size());
    for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
      category_of_[row] = categories_.number(trace.category(device, row));
    }
  }

  void append_rows(std::vector<StepRow>& out) {
    make_rows();
    if (rows_.empty()) return;
    find_peaks();
    if (trace_.has_categories()) add_categories();
    std::ranges::move(rows_, std::back_inserter(out));
  }

 private:
  void make_rows() {
    const auto ends = model::step_ends(trace_, device_);
    if (ends.empty()) return;
    std::uint32_t first = 0;
    for (const model::StepEnd& end : ends) {
      StepRow row = row_of(end.step, first, end.event);
      if (end.time_ns != model::kNoTime) row.end_time_ns = end.time_ns;
      rows_.push_back(std::move(row));
      first = end.event;
    }
    const auto last = static_cast<std::uint32_t>(device_.events.size());
    if (last > first) {
      rows_.push_back(row_of(ends.back().step + 1, first, last));
      rows_.back().is_complete = false;
    }
    const std::size_t too_many = rows_.size() - std::min(rows_.size(), kMostRows);
    rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(too_many));
  }

  StepRow row_of(std::uint64_t step, std::uint32_t first, std::uint32_t beyond) const {
    StepRow row;
    row.device = device_.device.ordinal;
    row.step = step;
    row.first_event = first;
    row.event_count = beyond - first;
    return row;
  }

  // Calls begin(row) and end(row) for the steps, and born(size, event, category) and died(size,
  // category) for the events in and before them.
  template <typename Begin, typename End, typename Born, typename Died>
  void walk(Begin&& begin, End&& end, Born&& born, Died&& died) {
    std::size_t at = 0;
    bool is_in = false;
    const auto advance_to = [&](std::uint64_t event) {
      for (; at < rows_.size(); ++at) {
        StepRow& row = rows_[at];
        if (!is_in && row.first_event > event) return;
        if (!is_in) begin(row);
        is_in = row.first_event + row.event_count > event;
        if (is_in) return;
        end(row);
      }
    };
    const model::Liveness liveness = model::default_liveness(device_);
    for (std::size_t row = 0; row < device_.lifetimes.baseline_count; ++row) {
      const bool is_over =
          model::death(device_.lifetimes, row, liveness) == model::kBeforeRecording;
      if (!is_over) born(trace_.lifetime_bytes(device_, row), kNone, category_of_[row]);
    }
    replay(
        device_, liveness,
        [&](std::uint32_t row, std::uint32_t event) {
          advance_to(event);
          const std::uint64_t size = trace_.lifetime_bytes(device_, row);
          born(size, event, category_of_[row]);
          if (!is_in) return;
          ++rows_[at].allocations;
          rows_[at].allocated_bytes += size;
        },
        [&](std::uint32_t row, std::uint32_t event) {
          advance_to(event);
          died(trace_.lifetime_bytes(device_, row), category_of_[row]);
        });
    advance_to(device_.events.size());
  }

  void find_peaks() {
    std::uint64_t total = 0;
    StepRow* now = nullptr;
    walk(
        [&](StepRow& row) {
          now = &row;
          row.peak_bytes = total;
        },
        [&](StepRow& row) {
          row.end_bytes = total;
          now = nullptr;
        },
        [&](std::uint64_t size, std::uint32_t event, std::uint32_t) {
          total += size;
          if (now == nullptr || total <= now->peak_bytes) return;
          now->peak_bytes = total;
          now->peak_event = event;
        },
        [&](std::uint64_t size, std::uint32_t) { total -= size; });
  }

  // A second pass, after the peaks are known.
  void add_categories() {
    for (StepRow& row : rows_) row.allocations = row.allocated_bytes = 0;
    std::vector<std::uint64_t> live(categories_.names().size());
    const auto copy = [&](StepRow& row, std::uint64_t CategoryBytes::* into) {
      row.categories.resize(live.size());
      for (std::size_t i = 0; i < live.size(); ++i) row.categories[i].*into = live[i];
    };
    StepRow* now = nullptr;
    walk(
        [&](StepRow& row) {
          now = &row;
          if (!row.peak_event) copy(row, &CategoryBytes::peak_bytes);
        },
        [&](StepRow& row) {
          copy(row, &CategoryBytes::end_bytes);
          now = nullptr;
        },
        [&](std::uint64_t size, std::uint32_t event, std::uint32_t category) {
          live[category] += size;
          if (now != nullptr && now->peak_event == event) copy(*now, &CategoryBytes::peak_bytes);
        },
        [&](std::uint64_t size, std::uint32_t category) { live[category] -= size; });
    for (StepRow& row : rows_) name_categories(row);
  }

  void name_categories(StepRow& row) const {
    for (std::size_t i = 0; i < row.categories.size(); ++i) {
      row.categories[i].category = categories_.names()[i];
    }
    std::erase_if(row.categories, [](const CategoryBytes& each) {
      return each.end_bytes == 0 && each.peak_bytes == 0;
    });
    std::ranges::sort(row.categories, {}, &CategoryBytes::category);
  }

  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  Categories categories_;
  std::vector<std::uint32_t> category_of_;  // by lifetime
  std::vector<StepRow> rows_;
};

class StepsPass final : public Pass {
 public:
  const char* name() const override { return "steps"; }
  OptionSet uses() const override { return OptionSet::kDevice; }
  void clear(report::Report& report) const override { report.tables.steps.clear(); }
  Status run(PassContext& context) const override {
    const auto is_step = [](const model::Mark& mark) {
      return mark.kind == model::MarkKind::kStep;
    };
    if (std::ranges::none_of(context.trace.marks, is_step)) return {};
    for (const model::DeviceTrace& device : context.trace.devices) {
      if (context.options.device && device.device != *context.options.device) continue;
      if (context.progress.interrupted()) return {};
      DeviceSteps(context.trace, device).append_rows(context.report.tables.steps);
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<StepsPass>(); }

}  // namespace plimsoll::analysis::steps
