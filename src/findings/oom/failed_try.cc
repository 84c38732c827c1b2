#include "findings/oom/failed_try.h"

#include <algorithm>
#include <map>

#include "findings/advice/line_advice.h"
#include "model/inner_lines.h"
#include "model/live_set.h"

namespace plimsoll::findings {
namespace {

// The stack of the request that failed at an event or, if that has no line, of the last allocation
// before it that does.
model::StackId stack_of_try(const Facts& facts, const model::DeviceTrace& device,
                            std::uint64_t event) {
  model::StackId stack = facts.trace.site(device, event).stack;
  const model::Lifetimes& lifetimes = device.lifetimes;
  const auto end = std::lower_bound(lifetimes.alloc.begin() + lifetimes.baseline_count,
                                    lifetimes.alloc.end(), event);
  auto row = static_cast<std::uint32_t>(end - lifetimes.alloc.begin());
  while (facts.lines.why(stack) != model::NoLine::kHasLine && row > lifetimes.baseline_count) {
    stack = facts.trace.birth(device, --row).stack;
  }
  return stack;
}

// How many calls the stacks share, from the outermost one.
std::size_t shared_calls(const model::Trace& trace, model::StackId a, model::StackId b) {
  const auto first = trace.stacks.frames(a), second = trace.stacks.frames(b);
  const auto end =
      std::mismatch(first.rbegin(), first.rend(), second.rbegin(), second.rend()).first;
  return static_cast<std::size_t>(end - first.rbegin());
}

}  // namespace

FailedTry failed_try(const Facts& facts, const DeviceFacts& device,
                     const report::OomDetails& last) {
  FailedTry found;
  const auto& ooms = device.report.oom_details;
  if (ooms.empty() || ooms.front().event >= last.event) return found;
  const model::Trace& trace = facts.trace;
  const model::StackId final_try = stack_of_try(facts, device.trace, last.event);
  std::map<std::uint64_t, model::StackId> tries;  // by event
  for (const std::uint32_t row :
       model::live_set(device.trace, model::default_liveness(device.trace),
                       static_cast<std::int64_t>(last.event))) {
    const std::uint32_t born = device.trace.lifetimes.alloc[row];
    const std::string_view category = trace.strings[trace.category(device.trace, row)];
    if (born == model::kNone || !is_of_training(category)) continue;
    const auto next =
        std::ranges::upper_bound(ooms, std::uint64_t{born}, {}, &report::OomDetails::event);
    if (next == ooms.end() || next->event >= last.event) continue;
    const auto [at, is_new] = tries.try_emplace(next->event);
    if (is_new) at->second = stack_of_try(facts, device.trace, next->event);
    const auto frames = trace.stacks.frames(at->second);
    const std::size_t common = shared_calls(trace, at->second, final_try);
    if (shared_calls(trace, trace.stack(device.trace, row), at->second) <= common) continue;
    found.bytes += trace.lifetime_bytes(device.trace, row);
    ++found.tensors;
    found.event = next->event;
    // The line at which the call of the failed try leaves the calls of the last one.
    found.call = model::package_line(trace, frames[frames.size() - 1 - common]);
  }
  return found;
}

}  // namespace plimsoll::findings
