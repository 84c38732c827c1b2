#include "analysis/growth/boundaries.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "analysis/evidence/passes.h"
#include "analysis/growth/cycles.h"
#include "analysis/growth/optimizer_rhythm.h"
#include "analysis/growth/root_calls.h"
#include "base/growth_rule.h"
#include "model/steps.h"

namespace plimsoll::analysis::growth {
namespace {

using model::DeviceTrace;
using model::kNoTime;
using model::Trace;

constexpr std::size_t kFewestCycles = 8;  // inferred, so more must agree
constexpr std::size_t kMost = 128;
// The marks of one optimizer are replaced by the steps of all optimizers if those are at least this
// many times as frequent.
constexpr std::size_t kManyOthers = 4;
constexpr std::string_view kOptimizerStep = "Optimizer.step#";
constexpr std::string_view kProfilerStep = "ProfilerStep#";
constexpr const char* kStepsByStacks = "optimizer step, by its stacks";

struct MarkedSteps {
  std::string name;
  std::vector<std::int64_t> ends_ns;
};

// The ends of the annotations with this prefix, by name. Uses those of this device or, if there are
// none, of any device: annotations have the device that was current on their thread.
std::map<std::string, std::vector<std::int64_t>> ends_by_name(const Trace& trace,
                                                              const DeviceTrace& device,
                                                              std::string_view prefix) {
  std::map<std::string, std::vector<std::int64_t>> here;
  std::map<std::string, std::vector<std::int64_t>> anywhere;
  for (const model::Annotation& annotation : trace.annotations) {
    const std::string_view name = trace.strings[annotation.name];
    if (!name.starts_with(prefix) || annotation.end_ns == kNoTime) continue;
    // Profiler steps are numbered, so all their names differ.
    const std::string key(prefix == kProfilerStep ? "ProfilerStep" : name);
    anywhere[key].push_back(annotation.end_ns);
    if (annotation.device == device.device) here[key].push_back(annotation.end_ns);
  }
  return here.empty() ? anywhere : here;
}

// The steps of the optimizer that steps most often, if there are several.
MarkedSteps marked_steps(const Trace& trace, const DeviceTrace& device, std::string_view prefix) {
  MarkedSteps steps;
  for (auto& [name, ends_ns] : ends_by_name(trace, device, prefix)) {
    if (ends_ns.size() > steps.ends_ns.size()) steps = MarkedSteps{name, std::move(ends_ns)};
  }
  std::ranges::sort(steps.ends_ns);
  return steps;
}

// For each time, the first event after it, or the number of events; each event once. A boundary
// before the first event has nothing to compare and is omitted.
std::vector<std::uint32_t> first_events_after(const DeviceTrace& device,
                                              const std::vector<std::int64_t>& times_ns) {
  std::vector<std::uint32_t> events;
  const auto times = device.events.time_ns.span();
  std::uint32_t event = 0;
  for (const std::int64_t time_ns : times_ns) {
    while (event < times.size() && times[event] <= time_ns) ++event;
    if (event > 0 && (events.empty() || events.back() != event)) events.push_back(event);
  }
  return events;
}

// The step marks of the recording, in the same form.
std::vector<std::uint32_t> marked_events(const Trace& trace, const DeviceTrace& device) {
  std::vector<std::uint32_t> events;
  for (const model::StepEnd& end : model::step_ends(trace, device)) {
    if (end.event > 0 && (events.empty() || events.back() != end.event)) {
      events.push_back(end.event);
    }
  }
  return events;
}

// Keeps the boundaries if there are enough.
bool keep(const std::vector<std::uint32_t>& events, std::size_t fewest, Boundaries& found) {
  if (events.size() < fewest) return false;
  const std::size_t each = (events.size() + kMost - 1) / kMost;
  for (std::size_t i = (events.size() - 1) % each; i < events.size(); i += each) {
    found.events.push_back(events[i]);
  }
  found.steps_each = static_cast<std::uint32_t>(each);
  found.steps = events.size();
  return true;
}

// Returns the steps of all optimizers if the marks cover few of them. The recorder marks the steps
// of one optimizer at a time. If a program creates a new one for each client, task or trial, a mark
// may stand for one step or for dozens.
std::vector<std::uint32_t> steps_between_marks(const Trace& trace, const DeviceTrace& device,
                                               const std::vector<std::uint32_t>& marked) {
  if (marked.empty() || is_regular(marked)) return {};
  std::vector<std::uint32_t> all = find_optimizer_steps(trace, device);
  if (all.size() < kManyOthers * marked.size()) all.clear();
  return all;
}

// Finds the steps that the recording marks, or that optimizers make on this device. If there are
// too few, `why_none` states that.
Boundaries find_steps(const Trace& trace, const DeviceTrace& device) {
  Boundaries found;
  const auto own_steps = marked_events(trace, device);
  std::size_t most_steps = own_steps.size();
  found.name = kStepsByStacks;
  if (keep(steps_between_marks(trace, device, own_steps), base::kFewestGrowthSteps, found)) {
    return found;
  }
  found.name = "step";
  if (keep(own_steps, base::kFewestGrowthSteps, found)) return found;
  for (const std::string_view prefix : {kOptimizerStep, kProfilerStep}) {
    const MarkedSteps steps = marked_steps(trace, device, prefix);
    const auto events = first_events_after(device, steps.ends_ns);
    most_steps = std::max(most_steps, events.size());
    found.name = steps.name;
    if (keep(events, base::kFewestGrowthSteps, found)) return found;
  }
  if (most_steps == 0) {
    const auto events = find_optimizer_steps(trace, device);
    most_steps = events.size();
    found.name = kStepsByStacks;
    if (keep(events, base::kFewestGrowthSteps, found)) return found;
  }
  if (most_steps > 0) {
    found.why_none = "the recording has " + std::to_string(most_steps) +
                     (most_steps == 1 ? " step" : " steps") + ": record at least " +
                     std::to_string(base::kFewestGrowthSteps) +
                     " to see what grows from step to step";
  }
  return found;
}

// Finds the calls of the root module, or cycles of the device's total, for recordings without marks
// of steps.
Boundaries find_rhythm(const Trace& trace, const DeviceTrace& device) {
  Boundaries found;
  const RootCalls calls = find_root_calls(trace, device);
  found.name = "call of " + calls.root;
  found.are_calls = keep(calls.ends, base::kFewestGrowthSteps, found);
  if (found.are_calls) return found;
  found.name = "cycle";
  keep(find_valleys(device), kFewestCycles, found);
  return found;
}

// Removes the points inside a forward on the device: the same pass allocates before and after them.
// `events` ascend.
void remove_inside_forwards(const Trace& trace, const DeviceTrace& device,
                            std::vector<std::uint32_t>& events) {
  if (!trace.has_layers() || !trace.has_phases()) return;
  const evidence::Passes passes(trace, device);
  struct Pass {
    std::string_view root;
    std::uint32_t number = 0;
    bool operator==(const Pass&) const = default;
  };
  const auto pass_at = [&](std::uint32_t event) {
    const model::Site& site = trace.site(device, event);
    if (site.phase != model::Phase::kForward) return Pass{};
    return Pass{evidence::root_of(trace.strings[site.layer]), passes.of(site.layer, event)};
  };
  const auto is_alloc = [&](std::uint32_t event) {
    return device.events.action[event] == model::Action::kAlloc;
  };
  Pass before;
  std::uint32_t event = 0, next = 0;
  std::erase_if(events, [&](std::uint32_t end) {
    for (; event < end; ++event) {
      if (is_alloc(event)) before = pass_at(event);
    }
    for (next = std::max(next, end); next < device.events.size() && !is_alloc(next);) ++next;
    return !before.root.empty() && next < device.events.size() && pass_at(next) == before;
  });
}

// Takes the boundaries of another device, by time. Pinned host memory, or a device that only holds
// data, has no steps of its own. A device inside a forward is in one step, whatever others do.
template <typename Find>
Boundaries borrowed(const Trace& trace, const DeviceTrace& device, Find&& find) {
  for (const DeviceTrace& other : trace.devices) {
    if (other.device == device.device || other.events.size() == 0) continue;
    const Boundaries of_other = find(trace, other);
    if (of_other.events.empty()) continue;
    std::vector<std::int64_t> times_ns;
    for (const std::uint32_t event : of_other.events) {
      const std::int64_t time_ns = other.events.time_ns[event - 1];
      if (time_ns != kNoTime) times_ns.push_back(time_ns);
    }
    Boundaries found;
    found.name = of_other.name;
    found.are_calls = of_other.are_calls;
    std::vector<std::uint32_t> events = first_events_after(device, times_ns);
    remove_inside_forwards(trace, device, events);
    if (!keep(events, base::kFewestGrowthSteps, found)) continue;
    found.steps_each = of_other.steps_each;
    found.steps = found.events.size() * of_other.steps_each;
    return found;
  }
  return {};
}

}  // namespace

Boundaries find_boundaries(const Trace& trace, const DeviceTrace& device) {
  if (device.events.size() == 0 || !trace.oom_messages.empty()) {
    Boundaries none;
    none.why_none = trace.oom_messages.empty() ? "needs events: this file has only the final state"
                                               : "needs a recording: this text has only messages";
    return none;
  }
  Boundaries found = find_steps(trace, device);
  if (!found.events.empty() || !found.why_none.empty()) return found;
  found = borrowed(trace, device, find_steps);
  if (!found.events.empty()) return found;
  found = find_rhythm(trace, device);
  if (!found.events.empty()) return found;
  found = borrowed(trace, device, find_rhythm);
  if (!found.events.empty()) return found;
  found.why_none =
      "no steps are marked in the recording, and memory does not rise and fall regularly; record "
      "several optimizer steps";
  return found;
}

}  // namespace plimsoll::analysis::growth
