#include "analysis/growth/held.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <iterator>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/growth_rule.h"
#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::analysis::growth {
namespace {

std::vector<Held> all_held(const model::Trace& trace, const model::DeviceTrace& device,
                           const std::vector<std::uint32_t>& ends) {
  std::vector<Held> all;
  const model::Lifetimes& lifetimes = device.lifetimes;
  std::uint32_t step = 0;  // of the birth; births only move on
  for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const std::uint32_t born = lifetimes.alloc[row];
    while (step < ends.size() && ends[step] <= born) ++step;
    if (step == ends.size()) break;
    const std::uint32_t died = model::death(lifetimes, row, model::Liveness::kAllocated);
    if (died < ends[step]) continue;  // kNone is larger than any event
    const auto beyond = std::ranges::upper_bound(ends, died) - ends.begin();
    all.push_back({static_cast<std::uint32_t>(row), 0, step, static_cast<std::uint32_t>(beyond),
                   static_cast<std::int64_t>(trace.held_bytes(device, row)), false, false});
  }
  return all;
}

// One of each name that an old parameter gets: its state, its gradient.
class LateBelongings {
 public:
  LateBelongings(const model::Trace& trace, const model::DeviceTrace& device,
                 const std::vector<Held>& held, std::size_t steps)
      : trace_(trace), device_(device), steps_(steps) {
    const std::size_t warm_up = base::ages_of(steps).warm_up;
    for (const Held& each : held) {
      const bool is_old = each.first < warm_up && each.beyond == steps;
      if (is_old && category(each) == model::kParameter) parameters_.insert(name(each));
    }
  }
  bool operator()(const Held& held) {
    const std::string_view category = this->category(held);
    const bool is_state = category == model::kOptimizerState;
    if (held.beyond != steps_ || (!is_state && category != model::kGradient)) return false;
    const std::string_view name = this->name(held);
    const std::string_view parameter = is_state ? name.substr(0, name.rfind('.')) : name;
    if (name.empty() || !parameters_.contains(parameter)) return false;
    return (is_state ? states_ : gradients_).insert(name).second;
  }

 private:
  std::string_view category(const Held& held) const {
    return trace_.strings[trace_.category(device_, held.lifetime)];
  }
  std::string_view name(const Held& held) const {
    const model::TensorId tensor = device_.lifetimes.tensor[held.lifetime];
    return trace_.strings[trace_.tensors[tensor.index()].name];
  }

  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  std::size_t steps_;
  std::unordered_set<std::string_view> parameters_, states_, gradients_;
};

// Marks what a model consists of. Gradients and state count up to the number of parameters of their
// size: more of them belong to nothing that is trained. Names do not decide, because a parameter
// may have another one when its state is made.
void mark_model(const model::Trace& trace, const model::DeviceTrace& device,
                std::vector<Held>& held, const std::vector<std::uint32_t>& ends) {
  if (!trace.has_categories()) return;
  const model::Lifetimes& lifetimes = device.lifetimes;
  const auto category = [&](std::uint32_t row) {
    return trace.strings[trace.category(device, row)];
  };
  const std::int64_t last = std::int64_t{ends.back()} - 1;
  std::unordered_map<std::uint64_t, std::size_t> parameters;  // live at the last end, by size
  for (std::uint32_t row = 0; row < lifetimes.size(); ++row) {
    if (!model::is_live(lifetimes, row, model::Liveness::kAllocated, last)) continue;
    if (category(row) == model::kParameter) ++parameters[trace.held_bytes(device, row)];
  }
  // By kind ("exp_avg", the end of the name, or "gradient") and size.
  std::map<std::pair<std::string_view, std::uint64_t>, std::size_t> belongings;
  for (Held& each : held) {
    if (each.beyond != ends.size()) continue;
    const std::string_view is = category(each.lifetime);
    each.is_of_model = is == model::kParameter || is == model::kBuffer;
    const bool is_state = is == model::kOptimizerState;
    if (!is_state && is != model::kGradient) continue;
    const model::TensorId tensor = lifetimes.tensor[each.lifetime];
    const std::string_view name = trace.strings[trace.tensors[tensor.index()].name];
    const std::string_view kind = is_state ? name.substr(name.rfind('.') + 1) : std::string_view();
    const auto size = static_cast<std::uint64_t>(each.size_bytes);
    // State in float32 is twice as large as a parameter in bfloat16.
    std::size_t most = parameters[size] + (is_state ? parameters[size / 2] : 0);
    if (is_state && name.empty()) most *= 3;  // an optimizer has up to three of a parameter
    each.is_of_model = belongings[{is_state ? kind : "gradient", size}]++ < most;
  }
}

bool is_joining(std::string_view op) {
  constexpr std::array<std::string_view, 6> kJoining = {"aten::cat",         "aten::concat",
                                                        "aten::concatenate", "aten::hstack",
                                                        "aten::vstack",      "aten::row_stack"};
  return std::ranges::find(kJoining, op) != kJoining.end();
}

// A tensor and the one of the same line before it, which is smaller and lives when it is made.
struct Link {
  std::size_t before;  // rows of what is held
  std::size_t after;
};

std::vector<Link> links_of(const model::Trace& trace, const model::DeviceTrace& device,
                           const model::UserLines& lines, const std::vector<Held>& held) {
  std::vector<Link> links;
  // By line: the tensors that nothing has been appended to yet, oldest first. A line that appends
  // to several in turn, one for each layer, comes to the oldest first.
  std::unordered_map<std::uint32_t, std::deque<std::size_t>> tails_of;
  for (std::size_t row = 0; row < held.size(); ++row) {
    const model::Site& site = trace.birth(device, held[row].lifetime);
    const bool joins =
        is_joining(trace.strings[site.op]) || is_joining(trace.strings[site.inner_op]);
    if (!joins) continue;
    std::deque<std::size_t>& tails = tails_of[lines.line(site.stack).value];
    const Held& after = held[row];
    while (!tails.empty() && held[tails.front()].beyond < after.first) tails.pop_front();
    if (!tails.empty() && held[tails.front()].first < after.first) {
      const Held& before = held[tails.front()];
      const bool is_replaced = before.beyond <= after.first + 1;
      if (is_replaced && before.size_bytes < after.size_bytes) {
        links.push_back({tails.front(), row});
      }
      tails.pop_front();
    }
    tails.push_back(row);
  }
  return links;
}

// Leaves the links of which a tensor of the difference in size is live when the later one is made.
void keep_proven(const model::Trace& trace, const model::DeviceTrace& device,
                 const std::vector<Held>& held, std::vector<Link>& links) {
  // By size: the events at which such a tensor must be live, and of which link.
  std::unordered_map<std::uint64_t, std::map<std::uint32_t, std::size_t>> open;
  for (std::size_t i = 0; i < links.size(); ++i) {
    const auto [before, after] = links[i];
    open[static_cast<std::uint64_t>(held[after].size_bytes - held[before].size_bytes)].emplace(
        device.lifetimes.alloc[held[after].lifetime], i);
  }
  if (open.empty()) return;
  std::vector<bool> is_proven(links.size());
  const model::Lifetimes& lifetimes = device.lifetimes;
  for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const auto found = open.find(trace.held_bytes(device, row));
    if (found == open.end()) continue;
    auto& events = found->second;
    const std::uint32_t died = model::death(lifetimes, row, model::Liveness::kAllocated);
    for (auto each = events.upper_bound(lifetimes.alloc[row]);
         each != events.end() && each->first < died; each = events.erase(each)) {
      is_proven[each->second] = true;
    }
  }
  std::size_t next = 0;
  std::erase_if(links, [&](const Link&) { return !is_proven[next++]; });
}

void count_appended(std::vector<Held>& held, const std::vector<Link>& links) {
  // The last link of a chain first: what it appends to lives as long as it.
  for (const Link& link : std::vector(links.rbegin(), links.rend())) {
    Held& after = held[link.after];
    after.size_bytes -= held[link.before].size_bytes;
    after.is_appended = true;
    held[link.before].beyond = std::max(held[link.before].beyond, after.beyond);
  }
}

}  // namespace

std::vector<Held> held_at_ends(const model::Trace& trace, const model::DeviceTrace& device,
                               const model::UserLines& lines,
                               const std::vector<std::uint32_t>& ends) {
  std::vector<Held> held = all_held(trace, device, ends);
  std::vector<Link> links = links_of(trace, device, lines, held);
  keep_proven(trace, device, held, links);
  count_appended(held, links);
  mark_model(trace, device, held, ends);
  LateBelongings is_late(trace, device, held, ends.size());
  std::erase_if(held, is_late);
  return held;
}

}  // namespace plimsoll::analysis::growth
