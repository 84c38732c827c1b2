#include "exporters/speedscope/memory_over_time.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "base/natural_order.h"
#include "model/layers.h"
#include "model/live_set.h"

namespace plimsoll::exporters::speedscope {
namespace {

using model::kNone;
using model::LayerId;

constexpr std::size_t kMostParts = 12;
constexpr std::uint64_t kHighest = 128;  // steps: a change by 1 % is visible

// Divides the layers into parts of similar size: repeatedly replaces the largest part by its
// children, up to the maximum count. A layer belongs to the nearest enclosing part.
class Parts {
 public:
  Parts(const ExportInput& input, const model::DeviceTrace& device) {
    for (const report::LayerRow& row : input.report.tables.layers) {
      if (row.device != device.device.ordinal || row.layer.empty()) continue;
      peaks_[row.layer] = row.inclusive.peak_bytes;
      const std::size_t dot = row.layer.rfind('.');
      children_[dot == std::string::npos ? "" : row.layer.substr(0, dot)].push_back(row.layer);
    }
    std::vector<std::string> open = children_[""];
    while (true) {
      const auto largest =
          std::ranges::max_element(open, {}, [&](const std::string& path) { return peaks_[path]; });
      if (largest == open.end()) break;
      const std::string path = std::move(*largest);
      open.erase(largest);
      names_.push_back(path);
      const std::vector<std::string>& inside = children_[path];
      if (names_.size() + open.size() + inside.size() < kMostParts) {
        open.insert(open.end(), inside.begin(), inside.end());
      }
    }
    std::ranges::sort(names_, base::natural_less);
    names_.emplace_back("[no layer]");
  }

  const std::vector<std::string>& names() const { return names_; }
  // The part with this name, or kNone.
  std::uint32_t find(const std::string& path) const {
    const auto found = std::lower_bound(names_.begin(), names_.end() - 1, path, base::natural_less);
    const bool is_there = found != names_.end() - 1 && *found == path;
    return is_there ? static_cast<std::uint32_t>(found - names_.begin()) : kNone;
  }
  std::uint32_t rest() const { return static_cast<std::uint32_t>(names_.size() - 1); }

 private:
  std::vector<std::string> names_;  // sorted; then the rest of the device
  std::map<std::string, std::uint64_t> peaks_;
  std::map<std::string, std::vector<std::string>> children_;
};

class Walk {
 public:
  Walk(const ExportInput& input, const model::DeviceTrace& device, std::size_t most)
      : trace_(input.trace), device_(device), most_(most), parts_(input, device) {
    model::Layers layers(trace_);
    std::vector<std::uint32_t> part_of = {parts_.rest()};  // by layer
    const model::Lifetimes& lifetimes = device.lifetimes;
    died_.assign(device.events.size(), kNone);
    for (std::uint32_t row = 0; row < lifetimes.size(); ++row) {
      const std::uint32_t death = model::death(lifetimes, row, model::default_liveness(device));
      if (death < died_.size()) died_[death] = row;
      const LayerId layer = layers.of(device, row);
      while (part_of.size() < layers.size()) {
        const LayerId next{static_cast<std::uint32_t>(part_of.size())};
        const std::uint32_t own = parts_.find(layers.path(next));
        part_of.push_back(own != kNone ? own : part_of[layers.parent(next).index()]);
      }
      part_of_.push_back(part_of[layer.index()]);
    }
  }

  MemoryOverTime run() {
    MemoryOverTime out;
    out.parts = parts_.names();
    out.step_bytes = std::bit_ceil((peak() + kHighest - 1) / kHighest);
    if (out.step_bytes == 0) out.step_bytes = 1;
    step_bytes_ = out.step_bytes;
    visit([&](std::uint32_t event) { see(event); });
    if (!states_.empty()) add(last_ns_, bytes_);  // the last span ends here
    for (std::size_t at = 0; at + 1 < states_.size(); ++at) {
      State& state = states_[at];
      const std::int64_t duration_ns = states_[at + 1].begin_ns - state.begin_ns;
      if (duration_ns <= 0) continue;
      out.spans.push_back(
          {static_cast<std::uint64_t>(duration_ns), state.bytes, std::move(state.heights)});
    }
    return out;
  }

 private:
  struct State {
    std::int64_t begin_ns = 0;
    std::uint64_t bytes = 0;
    std::vector<std::uint32_t> heights;
  };

  // Calls see(event) after each event that changes live memory. Sums wrap: a hostile file may have
  // any size.
  template <typename See>
  void visit(See&& see) {
    held_.assign(parts_.names().size(), 0);
    bytes_ = 0;
    const model::Lifetimes& lifetimes = device_.lifetimes;
    for (std::uint32_t row = 0; row < lifetimes.baseline_count; ++row) change(row, 1);
    std::uint32_t next = lifetimes.baseline_count;
    for (std::uint32_t event = 0; event < died_.size(); ++event) {
      bool is_changed = died_[event] != kNone;
      if (is_changed) change(died_[event], ~std::uint64_t{0});
      if (next < lifetimes.size() && lifetimes.alloc[next] == event) {
        change(next++, 1);
        is_changed = true;
      }
      if (is_changed) see(event);
    }
  }

  void change(std::uint32_t row, std::uint64_t sign) {
    const std::uint64_t by = sign * trace_.lifetime_bytes(device_, row);
    held_[part_of_[row]] += by;
    bytes_ += by;
  }

  std::uint64_t peak() {
    std::uint64_t most = 1;
    visit([&](std::uint32_t) { most = std::max(most, bytes_); });
    return most;
  }

  void see(std::uint32_t event) {
    const std::int64_t time_ns = device_.events.time_ns[event];
    if (time_ns == model::kNoTime) return;
    last_ns_ = std::max(last_ns_, time_ns);
    add(last_ns_, bytes_);
  }

  void add(std::int64_t time_ns, std::uint64_t bytes) {
    std::vector<std::uint32_t> heights = heights_now();
    if (!states_.empty() && states_.back().begin_ns == time_ns) states_.pop_back();
    states_.push_back({time_ns, bytes, std::move(heights)});
    if (states_.size() >= 2 * most_) join_neighbours();
  }

  // The higher of two merged spans is kept, so that peaks remain visible.
  void join_neighbours() {
    std::vector<State> joined;
    for (std::size_t at = 0; at < states_.size(); at += 2) {
      const bool is_second = at + 1 < states_.size() && states_[at + 1].bytes > states_[at].bytes;
      joined.push_back(std::move(states_[at + (is_second ? 1 : 0)]));
      joined.back().begin_ns = states_[at].begin_ns;
    }
    states_ = std::move(joined);
  }

  // Each part extends from the sum of the parts below it to the sum including it, both rounded, so
  // that rounding errors do not change the total height.
  std::vector<std::uint32_t> heights_now() const {
    std::vector<std::uint32_t> heights;
    std::uint64_t sum = 0, drawn = 0;
    for (const std::uint64_t held : held_) {
      sum += held;
      const std::uint64_t to =
          std::min(sum / step_bytes_ + (sum % step_bytes_ != 0 ? 1 : 0), 2 * kHighest);
      heights.push_back(static_cast<std::uint32_t>(to > drawn ? to - drawn : 0));
      drawn = std::max(drawn, to);
    }
    return heights;
  }

  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  const std::size_t most_;
  const Parts parts_;
  std::vector<std::uint32_t> died_;     // by event: the lifetime that ends there
  std::vector<std::uint32_t> part_of_;  // by lifetime
  std::vector<std::uint64_t> held_;     // live bytes by part
  std::uint64_t bytes_ = 0;
  std::uint64_t step_bytes_ = 1;
  std::int64_t last_ns_ = model::kNoTime;
  std::vector<State> states_;
};

}  // namespace

MemoryOverTime memory_over_time(const ExportInput& input, const model::DeviceTrace& device,
                                std::size_t most) {
  return Walk(input, device, most).run();
}

}  // namespace plimsoll::exporters::speedscope
