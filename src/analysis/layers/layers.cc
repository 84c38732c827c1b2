#include "analysis/layers/layers.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/backwards.h"
#include "analysis/layers/layer_calls.h"
#include "analysis/replay.h"
#include "base/natural_order.h"
#include "model/categories.h"
#include "model/layers.h"
#include "model/live_set.h"
#include "report/folded_layers.h"

namespace plimsoll::analysis::layers {
namespace {

using model::kNone;
using model::LayerId;
using report::LayerBytes;
using report::LayerRow;

struct Points {
  std::int64_t now = model::kBeforeFirst;
  std::optional<std::int64_t> saved;  // the backward described by tables.saved
};

std::int64_t point_of(const std::optional<std::uint64_t>& event) {
  return event ? static_cast<std::int64_t>(*event) : model::kBeforeFirst;
}

class DeviceLayers {
 public:
  DeviceLayers(const model::Trace& trace, const model::DeviceTrace& device)
      : trace_(trace), device_(device), layers_(trace) {
    const model::Lifetimes& lifetimes = device.lifetimes;
    of_lifetime_.reserve(lifetimes.size());
    for (std::size_t row = 0; row < lifetimes.size(); ++row) {
      of_lifetime_.push_back(layers_.of(device, row));
    }
    if (trace.has_layer_calls) calls_ = count_calls(trace, device, of_lifetime_, layers_);
    rows_.resize(layers_.size());
  }

  void append_rows(const Points& points, std::vector<LayerRow>& out) {
    add_live(points);
    add_up();
    find_peaks();
    for (const model::Module& module : trace_.modules) {
      const LayerId layer = layers_.find(trace_.strings[module.path]);
      if (layer != model::kNoLayer) rows_[layer.index()].type = trace_.strings[module.type];
    }
    for (std::uint32_t id = 0; id < rows_.size(); ++id) {
      rows_[id].device = device_.device.ordinal;
      rows_[id].layer = layers_.path(LayerId{id});
      if (!calls_.empty()) rows_[id].calls = calls_[id];
      add_time(rows_[id].own);
      add_time(rows_[id].inclusive);
    }
    std::ranges::sort(rows_, base::natural_less, &LayerRow::layer);
    std::ranges::move(rows_, std::back_inserter(out));
  }

 private:
  void add_live(const Points& points) {
    const auto& lifetimes = device_.lifetimes;
    const BackwardSpan backward =
        backward_from(trace_, device_,
                      static_cast<std::uint32_t>(points.saved.value_or(model::kBeforeFirst) + 1));
    for (std::size_t row = 0; row < lifetimes.size(); ++row) {
      LayerBytes& own = rows_[of_lifetime_[row].index()].own;
      if (is_live(lifetimes, row, model::default_liveness(device_), points.now)) add(row, own);
      if (!points.saved) continue;
      if (is_kept_for(backward, device_, row) &&
          is_live(lifetimes, row, model::default_liveness(device_), *points.saved)) {
        own.saved_bytes += trace_.lifetime_bytes(device_, row);
      }
    }
  }

  void add(std::size_t row, LayerBytes& own) {
    const std::uint64_t size = trace_.lifetime_bytes(device_, row);
    own.bytes += size;
    ++own.count;
    own.*of_phase(trace_.birth(device_, row).phase) += size;
    const std::string_view category = trace_.strings[trace_.category(device_, row)];
    if (const auto kind = of_category(category)) own.*kind += size;
  }

  static std::uint64_t LayerBytes::* of_phase(model::Phase phase) {
    switch (phase) {
      case model::Phase::kForward:
        return &LayerBytes::forward_bytes;
      case model::Phase::kBackward:
        return &LayerBytes::backward_bytes;
      case model::Phase::kOptimizer:
        return &LayerBytes::optimizer_bytes;
      case model::Phase::kData:
      case model::Phase::kOther:
        break;
    }
    return &LayerBytes::other_bytes;
  }

  static std::uint64_t LayerBytes::* of_category(std::string_view category) {
    if (category == model::kParameter) return &LayerBytes::parameter_bytes;
    if (category == model::kGradient) return &LayerBytes::gradient_bytes;
    if (category == model::kOptimizerState) return &LayerBytes::optimizer_state_bytes;
    if (category == model::kActivation) return &LayerBytes::activation_bytes;
    return nullptr;
  }

  // Ancestors have smaller numbers, so children are complete when their parent gets them.
  void add_up() {
    for (LayerRow& row : rows_) row.inclusive = row.own;
    for (auto id = static_cast<std::uint32_t>(rows_.size() - 1); id > 0; --id) {
      const LayerId parent = layers_.parent(LayerId{id});
      if (parent == model::kNoLayer) continue;
      LayerBytes& into = rows_[parent.index()].inclusive;
      for (const auto member : {&LayerBytes::bytes, &LayerBytes::count, &LayerBytes::forward_bytes,
                                &LayerBytes::backward_bytes, &LayerBytes::optimizer_bytes,
                                &LayerBytes::other_bytes, &LayerBytes::parameter_bytes,
                                &LayerBytes::gradient_bytes, &LayerBytes::optimizer_state_bytes,
                                &LayerBytes::activation_bytes, &LayerBytes::saved_bytes}) {
        into.*member += rows_[id].inclusive.*member;
      }
    }
  }

  struct Now {
    std::uint64_t own = 0;
    std::uint64_t inclusive = 0;
  };

  void find_peaks() {
    std::vector<Now> now(rows_.size());
    for (std::size_t row = 0; row < device_.lifetimes.baseline_count; ++row) {
      change(row, now, trace_.lifetime_bytes(device_, row));
    }
    for (std::size_t id = 0; id < now.size(); ++id) {
      rows_[id].own.peak_bytes = now[id].own;
      rows_[id].inclusive.peak_bytes = now[id].inclusive;
    }
    replay(
        device_, model::default_liveness(device_),
        [&](std::uint32_t row, std::uint32_t event) {
          change(row, now, trace_.lifetime_bytes(device_, row));
          raise_peaks(of_lifetime_[row], now, event);
        },
        [&](std::uint32_t row, std::uint32_t) {
          change(row, now, 0 - trace_.lifetime_bytes(device_, row));
        });
  }

  // Sums wrap: a hostile file may have any size.
  void change(std::size_t row, std::vector<Now>& now, std::uint64_t by) const {
    LayerId layer = of_lifetime_[row];
    now[layer.index()].own += by;
    do {
      now[layer.index()].inclusive += by;
      layer = layers_.parent(layer);
    } while (layer != model::kNoLayer);
  }

  void raise_peaks(LayerId layer, const std::vector<Now>& now, std::uint32_t event) {
    raise(rows_[layer.index()].own, now[layer.index()].own, event);
    do {
      raise(rows_[layer.index()].inclusive, now[layer.index()].inclusive, event);
      layer = layers_.parent(layer);
    } while (layer != model::kNoLayer);
  }

  static void raise(LayerBytes& row, std::uint64_t bytes, std::uint32_t event) {
    if (bytes <= row.peak_bytes) return;
    row.peak_bytes = bytes;
    row.peak_event = event;
  }

  void add_time(LayerBytes& row) const {
    if (!row.peak_event) return;
    const std::int64_t time_ns = device_.events.time_ns[*row.peak_event];
    if (time_ns != model::kNoTime) row.peak_time_ns = time_ns;
  }

  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  model::Layers layers_;
  std::vector<LayerId> of_lifetime_;
  std::vector<report::LayerCalls> calls_;  // by layer; empty: calls are not recorded
  std::vector<LayerRow> rows_;             // by layer
};

// Matches the points in time with their devices: they are in the same order, but some devices may
// have none.
class LayersPass final : public Pass {
 public:
  const char* name() const override { return "layers"; }
  std::span<const char* const> depends_on() const override {
    static constexpr const char* kNames[] = {"composition"};
    return kNames;
  }
  std::span<const char* const> runs_after() const override {
    static constexpr const char* kNames[] = {"saved"};
    return kNames;
  }
  OptionSet uses() const override { return OptionSet::kDevice; }
  void clear(report::Report& report) const override {
    report.tables.layers.clear();
    report.tables.folded_layers.clear();
  }
  Status run(PassContext& context) const override {
    if (!model::Layers::are_known(context.trace) && !context.trace.has_layer_calls) return {};
    report::Tables& tables = context.report.tables;
    std::size_t next = 0;
    std::size_t next_saved = 0;
    for (const model::DeviceTrace& device : context.trace.devices) {
      if (context.options.device && device.device != *context.options.device) continue;
      Points points;
      if (next_saved < tables.saved.size() &&
          tables.saved[next_saved].device == device.device.ordinal) {
        points.saved = point_of(tables.saved[next_saved++].event);
      }
      const bool has_point =
          next < tables.points.size() && tables.points[next].device == device.device.ordinal;
      if (!has_point) continue;
      points.now = point_of(tables.points[next++].event);
      if (context.progress.interrupted()) return {};
      DeviceLayers(context.trace, device).append_rows(points, tables.layers);
    }
    tables.folded_layers = report::fold_layers(tables.layers);
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<LayersPass>(); }

}  // namespace plimsoll::analysis::layers
