#include "analysis/layers/layer_calls.h"

#include <algorithm>

#include "analysis/layer_timeline.h"

namespace plimsoll::analysis::layers {
namespace {

using model::kNoLayer;
using model::LayerId;
using report::LayerCalls;

constexpr std::uint64_t kLongestNs = INT64_MAX;  // limit for all calls together; a hostile file may
                                                 // contain any times

// The totals while a layer is open, as the difference of two running sums: a hostile file may open
// thousands of layers, so they must not all be visited for each row.
struct RowSums {
  std::uint64_t rows = 0;
  double ratios = 0;
};

// Finds the maximum of all values since a given row.
class MostSince {
 public:
  void add(std::uint64_t row, std::uint64_t value) {
    while (!falling_.empty() && falling_.back().value <= value) falling_.pop_back();
    falling_.push_back({row, value});
  }
  // Over the rows from `row` on; 0 if there are none.
  std::uint64_t since(std::uint64_t row) const {
    const auto first = std::ranges::lower_bound(falling_, row, {}, &Value::row);
    return first == falling_.end() ? 0 : first->value;
  }
  void clear() { falling_.clear(); }

 private:
  struct Value {
    std::uint64_t row;
    std::uint64_t value;
  };
  std::vector<Value> falling_;  // values that no later value reaches
};

class Calls {
 public:
  Calls(const model::Trace& trace, const std::vector<LayerId>& of_lifetime, model::Layers& layers)
      : trace_(trace), of_lifetime_(of_lifetime), layers_(layers) {
    for (const model::Mark& mark : trace.marks) {
      if (mark.kind == model::MarkKind::kLayerBegin) layers_.named(trace.strings[mark.name]);
    }
    state_.resize(layers_.size());
  }

  void see(const TimelineRow& row) {
    if (row.time_ns != model::kNoTime) now_ns_ = row.time_ns;
    switch (row.what) {
      case Happening::kAlloc:
      case Happening::kFree:
        count(row);
        break;
      case Happening::kLayerEnter:
        enter(called(row));
        break;
      case Happening::kLayerExit:
      case Happening::kSnapshot:
        break;
    }
    ++sums_.rows;
    sums_.ratios += fragmentation_ratio(row);
    if (open_layers_ > 0) most_reserved_.add(sums_.rows, row.reserved_bytes);
    if (row.what == Happening::kLayerExit) exit(called(row));
  }

  // A call that has not ended lasts until the last row.
  std::vector<LayerCalls> finish() {
    std::vector<LayerCalls> all;
    for (State& state : state_) {
      if (state.open > 0) close(state);
      if (state.rows > 0) {
        state.calls.fragmentation_ratio = state.ratios / static_cast<double>(state.rows);
      }
      state.calls.rows = state.rows;
      all.push_back(state.calls);
    }
    return all;
  }

 private:
  struct State {
    LayerCalls calls;
    std::uint64_t own_open = 0;  // running calls of the layer
    std::uint64_t open = 0;      // the same, plus those of the layers inside it
    std::int64_t since_ns = 0;
    RowSums since;
    std::uint64_t rows = 0;
    double ratios = 0;
  };

  // Visits the layer and its ancestors; outside of all layers, only kNoLayer.
  template <typename Visit>
  void for_each_around(LayerId layer, Visit&& visit) {
    do {
      visit(layer);
      layer = layers_.parent(layer);
    } while (layer != kNoLayer);
  }

  State& state(LayerId layer) { return state_[layer.index()]; }
  LayerId called(const TimelineRow& row) {
    return layers_.find(trace_.strings[trace_.marks[row.mark].name]);
  }

  void count(const TimelineRow& row) {
    for_each_around(of_lifetime_[row.lifetime], [&](LayerId layer) {
      LayerCalls& calls = state(layer).calls;
      ++(row.what == Happening::kAlloc ? calls.allocations : calls.frees);
      if (state(layer).open > 0) return;  // an enclosing call already includes every row
      ++state(layer).rows;
      state(layer).ratios += fragmentation_ratio(row);
      calls.peak_reserved_bytes = std::max(calls.peak_reserved_bytes, row.reserved_bytes);
    });
  }

  void enter(LayerId layer) {
    if (layer == kNoLayer) return;
    ++state(layer).calls.calls;
    ++state(layer).own_open;
    for_each_around(layer, [&](LayerId around) {
      if (state(around).open++ > 0) return;
      state(around).since_ns = now_ns_;
      state(around).since = sums_;
      ++open_layers_;
    });
  }

  // An end without a recorded beginning is ignored.
  void exit(LayerId layer) {
    if (layer == kNoLayer || state(layer).own_open == 0) return;
    --state(layer).own_open;
    for_each_around(layer, [&](LayerId around) {
      if (--state(around).open == 0) close(state(around));
    });
  }

  void close(State& layer) {
    const std::int64_t lasted_ns = now_ns_ - layer.since_ns;
    if (lasted_ns > 0) {
      layer.calls.duration_ns =
          std::min(layer.calls.duration_ns + static_cast<std::uint64_t>(lasted_ns), kLongestNs);
    }
    layer.rows += sums_.rows - layer.since.rows;
    layer.ratios += sums_.ratios - layer.since.ratios;
    layer.calls.peak_reserved_bytes =
        std::max(layer.calls.peak_reserved_bytes, most_reserved_.since(layer.since.rows + 1));
    if (--open_layers_ == 0) most_reserved_.clear();
  }

  const model::Trace& trace_;
  const std::vector<LayerId>& of_lifetime_;
  model::Layers& layers_;
  std::vector<State> state_;  // by layer
  std::uint64_t open_layers_ = 0;
  RowSums sums_;
  MostSince most_reserved_;
  std::int64_t now_ns_ = 0;
};

}  // namespace

std::vector<LayerCalls> count_calls(const model::Trace& trace, const model::DeviceTrace& device,
                                    const std::vector<LayerId>& of_lifetime,
                                    model::Layers& layers) {
  Calls calls(trace, of_lifetime, layers);
  for_each_happening(trace, device, [&](const TimelineRow& row) { calls.see(row); });
  return calls.finish();
}

}  // namespace plimsoll::analysis::layers
