#include "analysis/growth/survivors.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "analysis/evidence/operators.h"
#include "analysis/growth/appended.h"
#include "base/growth_rule.h"
#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::analysis::growth {
namespace {

std::vector<Survivor> all_survivors(const model::Trace& trace, const model::DeviceTrace& device,
                                    const std::vector<std::uint32_t>& ends) {
  std::vector<Survivor> all;
  const model::Lifetimes& lifetimes = device.lifetimes;
  const evidence::Operators operators(trace);
  std::uint32_t step = 0;  // of the birth; births only move forward
  for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const std::uint32_t born = lifetimes.alloc[row];
    while (step < ends.size() && ends[step] <= born) ++step;
    if (step == ends.size()) break;
    const std::uint32_t died = model::death(lifetimes, row, model::Liveness::kAllocated);
    const bool is_within = died < ends[step];  // kNone is larger than any event
    const auto lifetime = static_cast<std::uint32_t>(row);
    const bool is_joined =
        operators.called_at(trace.birth(device, row)).has(evidence::Operator::kJoining);
    if (is_within && !is_joined) continue;
    const auto beyond = std::ranges::upper_bound(ends, died) - ends.begin();
    all.push_back({lifetime, 0, step, is_within ? step : static_cast<std::uint32_t>(beyond),
                   static_cast<std::int64_t>(trace.lifetime_bytes(device, row)), false, false,
                   false, lifetime});
  }
  return all;
}

// The state and the gradient that an old parameter gets late. For each name, only the first counts.
class LateStateOrGradient {
 public:
  LateStateOrGradient(const model::Trace& trace, const model::DeviceTrace& device,
                      const std::vector<Survivor>& survivor, std::size_t steps)
      : trace_(trace), device_(device), steps_(steps) {
    const std::size_t warm_up = base::ages_of(steps).warm_up;
    for (const Survivor& each : survivor) {
      const bool is_old = each.first < warm_up && each.beyond == steps;
      if (is_old && category(each) == model::kParameter) parameters_.insert(name(each));
    }
  }
  bool operator()(const Survivor& survivor) {
    const std::string_view category = this->category(survivor);
    const bool is_state = category == model::kOptimizerState;
    if (survivor.beyond != steps_ || (!is_state && category != model::kGradient)) return false;
    const std::string_view name = this->name(survivor);
    const std::string_view parameter = is_state ? name.substr(0, name.rfind('.')) : name;
    if (name.empty() || !parameters_.contains(parameter)) return false;
    return (is_state ? states_ : gradients_).insert(name).second;
  }

 private:
  std::string_view category(const Survivor& survivor) const {
    return trace_.strings[trace_.category(device_, survivor.newest)];
  }
  std::string_view name(const Survivor& survivor) const {
    const model::TensorId tensor = device_.lifetimes.tensor[survivor.newest];
    return trace_.strings[trace_.tensors[tensor.index()].name];
  }

  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  std::size_t steps_;
  std::unordered_set<std::string_view> parameters_, states_, gradients_;
};

// Marks the memory that a model consists of. Gradients and state count up to the number of
// parameters of their size; any excess belongs to no trained parameter. Names are not used, because
// a parameter may have a different name when its state is created.
void mark_model(const model::Trace& trace, const model::DeviceTrace& device,
                std::vector<Survivor>& survivor, const std::vector<std::uint32_t>& ends) {
  if (!trace.has_categories()) return;
  const model::Lifetimes& lifetimes = device.lifetimes;
  const auto category = [&](std::uint32_t row) {
    return trace.strings[trace.category(device, row)];
  };
  const std::int64_t last = std::int64_t{ends.back()} - 1;
  std::unordered_map<std::uint64_t, std::size_t> parameters;  // live at the last end, by size
  for (std::uint32_t row = 0; row < lifetimes.size(); ++row) {
    if (!model::is_live(lifetimes, row, model::Liveness::kAllocated, last)) continue;
    if (category(row) == model::kParameter) ++parameters[trace.lifetime_bytes(device, row)];
  }
  // By kind ("exp_avg", the end of the name, or "gradient") and size.
  std::map<std::pair<std::string_view, std::uint64_t>, std::size_t> belongings;
  for (Survivor& each : survivor) {
    if (each.beyond != ends.size()) continue;
    const std::string_view is = category(each.newest);
    each.is_of_model = is == model::kParameter || is == model::kBuffer;
    const bool is_state = is == model::kOptimizerState;
    if (!is_state && is != model::kGradient) continue;
    const model::TensorId tensor = lifetimes.tensor[each.newest];
    const std::string_view name = trace.strings[trace.tensors[tensor.index()].name];
    const std::string_view kind = is_state ? name.substr(name.rfind('.') + 1) : std::string_view();
    const auto size = static_cast<std::uint64_t>(each.size_bytes);
    // State in float32 is twice as large as its parameter in bfloat16.
    std::size_t most = parameters[size] + (is_state ? parameters[size / 2] : 0);
    if (is_state && name.empty()) most *= 3;  // an optimizer has up to three of a parameter
    each.is_of_model = belongings[{is_state ? kind : "gradient", size}]++ < most;
  }
}

// Whether one tensor may replace another in a variable or container entry. Categories are compared,
// because a gradient freed at the same line may have the size of a tensor that is kept.
bool is_same_kind(const model::Trace& trace, const model::DeviceTrace& device, const Survivor& one,
                  const Survivor& other) {
  return one.size_bytes == other.size_bytes &&
         trace.category(device, one.lifetime) == trace.category(device, other.lifetime);
}

// Whether the same call makes both tensors.
bool is_same_call(const model::Trace& trace, const model::DeviceTrace& device, const Survivor& one,
                  const Survivor& other) {
  const model::Site& site = trace.birth(device, one.lifetime);
  const model::Site& of_other = trace.birth(device, other.lifetime);
  return site.layer == of_other.layer && site.op == of_other.op;
}

// Joins the tensors of a variable or container entry that gets a new tensor at every step: the old
// tensor is freed as soon as the new one, of the same line, size and category, has been made. Such
// an entry counts as one allocation that stays. A hook registered at every step adds one entry, and
// so does a dictionary that each step creates.
void join_entries(const model::Trace& trace, const model::DeviceTrace& device,
                  const model::UserLines& lines, std::vector<Survivor>& survivor) {
  constexpr std::uint32_t kMostEvents = 4;  // from the birth of the new tensor to the death of the
                                            // old
  struct Death {
    std::size_t row;
    std::uint32_t line;
  };
  std::unordered_map<std::uint32_t, Death> deaths;  // by event
  const auto line_of = [&](const Survivor& each) {
    return lines.line(trace.birth(device, each.lifetime).stack).value;
  };
  for (std::size_t row = 0; row < survivor.size(); ++row) {
    if (is_within_a_step(survivor[row])) continue;
    const std::uint32_t died =
        model::death(device.lifetimes, survivor[row].lifetime, model::Liveness::kAllocated);
    if (died != model::kNone) deaths.emplace(died, Death{row, line_of(survivor[row])});
  }
  // The tensor that this row replaces, preferably one of the same call. The line may make several
  // tensors, and each replaces its own predecessor.
  const auto replaced_by = [&](std::size_t row) {
    const std::uint32_t born = device.lifetimes.alloc[survivor[row].lifetime];
    auto any = deaths.end();
    for (std::uint32_t event = born + 1; event <= born + kMostEvents; ++event) {
      const auto old = deaths.find(event);
      if (old == deaths.end() || old->second.row >= row) continue;
      const Survivor& before = survivor[old->second.row];
      if (old->second.line != line_of(survivor[row])) continue;
      if (!is_same_kind(trace, device, before, survivor[row])) continue;
      if (is_same_call(trace, device, before, survivor[row])) return old;
      if (any == deaths.end()) any = old;
    }
    return any;
  };
  std::vector<std::size_t> entry_of(survivor.size());  // the first tensor of each entry
  for (std::size_t row = 0; row < survivor.size(); ++row) {
    entry_of[row] = row;
    if (is_within_a_step(survivor[row])) continue;
    const auto old = replaced_by(row);
    if (old == deaths.end()) continue;
    entry_of[row] = entry_of[old->second.row];
    deaths.erase(old);
  }
  std::vector<bool> is_joined(survivor.size());
  for (std::size_t row = 0; row < survivor.size(); ++row) {
    is_joined[row] = entry_of[row] != row;
    Survivor& entry = survivor[entry_of[row]];
    entry.beyond = std::max(entry.beyond, survivor[row].beyond);
    entry.is_entry = entry.is_entry || is_joined[row];
    entry.newest = survivor[row].lifetime;
  }
  std::size_t next = 0;
  std::erase_if(survivor, [&](const Survivor&) { return is_joined[next++]; });
}

}  // namespace

std::vector<Survivor> survivors_at_ends(const model::Trace& trace, const model::DeviceTrace& device,
                                        const model::UserLines& lines,
                                        const std::vector<std::uint32_t>& ends) {
  std::vector<Survivor> survivor = all_survivors(trace, device, ends);
  join_entries(trace, device, lines, survivor);
  count_appended(trace, device, lines, survivor);
  mark_model(trace, device, survivor, ends);
  LateStateOrGradient is_late(trace, device, survivor, ends.size());
  std::erase_if(survivor, is_late);
  return survivor;
}

}  // namespace plimsoll::analysis::growth
