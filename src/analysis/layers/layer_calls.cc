#include "analysis/layers/layer_calls.h"

#include <algorithm>

#include "analysis/layer_timeline.h"

namespace plimsoll::analysis::layers {
namespace {

using model::kNoLayer;
using model::LayerId;
using report::LayerCalls;

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
    ++rows_;
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
    for (const LayerId layer : open_) touch(layer, row);
    if (row.what == Happening::kLayerExit) exit(called(row));
  }

  // A call that had not ended lasts until the last row.
  std::vector<LayerCalls> finish() {
    while (!open_.empty()) close(open_.back());
    std::vector<LayerCalls> all;
    for (State& state : state_) {
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
    std::uint64_t own_open = 0;  // calls of it that run
    std::uint64_t open = 0;      // and of the layers inside it
    std::int64_t since_ns = 0;
    std::uint64_t last_row = 0;
    std::uint64_t rows = 0;
    double ratios = 0;
  };

  // The layer and those around it; outside of all layers, kNoLayer alone.
  template <typename Visit>
  void for_each_around(LayerId layer, Visit&& visit) {
    do {
      visit(layer);
      layer = layers_.parent(layer);
    } while (layer != kNoLayer);
  }

  State& state(LayerId layer) { return state_[layer.index()]; }
  LayerId called(const TimelineRow& row) {
    return layers_.named(trace_.strings[trace_.marks[row.mark].name]);
  }

  void count(const TimelineRow& row) {
    for_each_around(of_lifetime_[row.lifetime], [&](LayerId layer) {
      LayerCalls& calls = state(layer).calls;
      ++(row.what == Happening::kAlloc ? calls.allocations : calls.frees);
      touch(layer, row);
    });
  }

  void touch(LayerId layer, const TimelineRow& row) {
    State& known = state(layer);
    if (known.last_row == rows_) return;
    known.last_row = rows_;
    ++known.rows;
    known.ratios += fragmentation_ratio(row);
    known.calls.peak_reserved_bytes = std::max(known.calls.peak_reserved_bytes, row.reserved_bytes);
  }

  void enter(LayerId layer) {
    if (layer == kNoLayer) return;
    ++state(layer).calls.calls;
    ++state(layer).own_open;
    for_each_around(layer, [&](LayerId around) {
      if (state(around).open++ > 0) return;
      state(around).since_ns = now_ns_;
      open_.push_back(around);
    });
  }

  // An end whose beginning was not recorded counts for nothing.
  void exit(LayerId layer) {
    if (layer == kNoLayer || layer.index() >= state_.size() || state(layer).own_open == 0) return;
    --state(layer).own_open;
    for_each_around(layer, [&](LayerId around) {
      if (--state(around).open == 0) close(around);
    });
  }

  void close(LayerId layer) {
    std::erase(open_, layer);
    const std::int64_t lasted_ns = now_ns_ - state(layer).since_ns;
    if (lasted_ns > 0) state(layer).calls.duration_ns += static_cast<std::uint64_t>(lasted_ns);
  }

  const model::Trace& trace_;
  const std::vector<LayerId>& of_lifetime_;
  model::Layers& layers_;
  std::vector<State> state_;  // by layer
  std::vector<LayerId> open_;
  std::uint64_t rows_ = 0;
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
