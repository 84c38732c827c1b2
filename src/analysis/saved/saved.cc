#include "analysis/saved/saved.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/backwards.h"
#include "analysis/groups.h"
#include "model/layers.h"
#include "model/live_set.h"
#include "model/steps.h"

namespace plimsoll::analysis::saved {
namespace {

using model::kNone;
using report::SavedRow;

bool is_saved(const model::DeviceTrace& device, std::size_t lifetime) {
  return has(device.lifetimes.flags[lifetime], model::LifetimeFlags::kSavedForBackward);
}

// Of the two backwards around the peak, the one that uses most of the memory live there; nullopt if
// neither uses any.
std::optional<std::size_t> of_peak(const model::Trace& trace, const model::DeviceTrace& device,
                                   const std::vector<std::uint32_t>& begins,
                                   std::optional<std::uint64_t> peak) {
  if (!peak) return std::nullopt;
  const auto next = std::ranges::upper_bound(begins, *peak);
  const auto after = static_cast<std::size_t>(next - begins.begin());
  std::uint64_t of_before = 0, of_after = 0;
  for (const std::uint32_t row :
       live_set(device, model::default_liveness(device), static_cast<std::int64_t>(*peak))) {
    if (!is_saved(device, row)) continue;
    const auto is_live_at = [&](std::size_t backward) {
      return is_live(device.lifetimes, row, model::default_liveness(device),
                     std::int64_t{begins[backward]} - 1);
    };
    const std::uint64_t size = trace.lifetime_bytes(device, row);
    if (after > 0 && is_live_at(after - 1)) of_before += size;
    if (after < begins.size() && is_live_at(after)) of_after += size;
  }
  if (of_before == 0 && of_after == 0) return std::nullopt;
  return of_before >= of_after ? after - 1 : after;
}

// The backward with the most bytes kept; the first of equals.
std::size_t largest(const model::Trace& trace, const model::DeviceTrace& device,
                    const std::vector<std::uint32_t>& begins) {
  const auto bytes =
      held_at(begins, trace, device, [&](std::size_t row) { return is_saved(device, row); });
  return static_cast<std::size_t>(std::ranges::max_element(bytes) - bytes.begin());
}

class DeviceSaved {
  struct Saved {
    std::uint32_t lifetime;
    std::uint64_t size_bytes;
  };

 public:
  DeviceSaved(PassContext& context, const model::DeviceTrace& device,
              std::optional<std::uint64_t> peak)
      : context_(context), trace_(context.trace), device_(device), peak_(peak) {}

  void append_to(report::Tables& tables) {
    const auto begins = backward_begins(trace_, device_);
    if (begins.empty()) return;
    const auto backward = of_peak(trace_, device_, begins, peak_);
    SavedRow row = row_at(begins[backward ? *backward : largest(trace_, device_, begins)]);
    row.is_of_peak = backward.has_value();
    row.backwards = begins.size();
    if (row.count > 0) append_groups(row, tables);
    tables.saved.push_back(row);
  }

 private:
  SavedRow row_at(std::uint32_t begin) {
    SavedRow row;
    row.device = device_.device.ordinal;
    if (begin > 0) {
      row.event = begin - 1;
      const std::int64_t time_ns = device_.events.time_ns[begin - 1];
      if (time_ns != model::kNoTime) row.time_ns = time_ns;
    }
    const auto ends = model::step_ends(trace_, device_);
    const std::size_t step = model::step_of(ends, begin > 0 ? begin - 1 : 0);
    if (step < ends.size()) row.step = ends[step].step;
    const auto point = std::int64_t{begin} - 1;
    const BackwardSpan backward = backward_from(trace_, device_, begin);
    for (const std::uint32_t live : live_set(device_, model::default_liveness(device_), point)) {
      const std::uint64_t size = trace_.lifetime_bytes(device_, live);
      row.live_bytes += size;
      if (!is_kept_for(backward, device_, live)) continue;
      row.bytes += size;
      ++row.count;
      saved_.push_back({live, size});
    }
    return row;
  }

  void append_groups(const SavedRow& row, report::Tables& tables) {
    report::PointInTime whole;
    whole.device = row.device;
    whole.live_bytes = row.bytes;
    Groups by_operator(trace_.strings.size());
    model::Layers layers(trace_);
    std::vector<model::LayerId> layer_of;
    for (const auto& [lifetime, size] : saved_) {
      by_operator.add(trace_.birth(device_, lifetime).op.value, size);
      layer_of.push_back(layers.of(device_, lifetime));
    }
    Groups by_layer(layers.size());
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      by_layer.add(layer_of[i].value, saved_[i].size_bytes);
    }
    append_rows(
        by_operator.take(), context_.options.top, whole,
        [&](std::uint32_t id, report::GroupRow& group) {
          group.key = id == 0 ? "[outside all operators]"
                              : std::string(trace_.strings[model::StringId{id}]);
        },
        tables.saved_by_operator);
    append_rows(
        by_layer.take(), context_.options.top, whole,
        [&](std::uint32_t id, report::GroupRow& group) {
          group.key = id == 0 ? "[no layer]" : layers.path(model::LayerId{id});
        },
        tables.saved_by_layer);
  }

  PassContext& context_;
  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  std::optional<std::uint64_t> peak_;
  std::vector<Saved> saved_;
};

class SavedPass final : public Pass {
 public:
  const char* name() const override { return "saved"; }
  std::span<const char* const> runs_after() const override {
    static constexpr const char* kNames[] = {"timeline"};
    return kNames;
  }
  OptionSet uses() const override { return OptionSet::kDevice | OptionSet::kTop; }
  void clear(report::Report& report) const override {
    report.tables.saved.clear();
    report.tables.saved_by_operator.clear();
    report.tables.saved_by_layer.clear();
  }
  Status run(PassContext& context) const override {
    for (std::size_t i = 0; i < context.trace.devices.size(); ++i) {
      const model::DeviceTrace& device = context.trace.devices[i];
      if (context.options.device && device.device != *context.options.device) continue;
      std::optional<std::uint64_t> peak;
      if (i < context.report.devices.size())
        peak = context.report.devices[i].live_totals().peak_event;
      DeviceSaved(context, device, peak).append_to(context.report.tables);
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<SavedPass>(); }

}  // namespace plimsoll::analysis::saved
