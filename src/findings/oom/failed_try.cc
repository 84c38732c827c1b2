#include "findings/oom/failed_try.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "findings/advice/line_advice.h"
#include "model/inner_lines.h"
#include "model/live_set.h"

namespace plimsoll::findings {
namespace {

// A try, as seen at the request that failed.
struct Try {
  model::StackId stack;  // of the request or, if that has no line, of the last one that does
  evidence::Pass pass;   // that made the last tensor before it
};

class Tries {
 public:
  Tries(const Facts& facts, const DeviceFacts& device)
      : facts_(facts), device_(device.trace), evidence_(facts.evidence(device.trace).evidence) {}

  const Try& at(std::uint32_t event) {
    const auto [found, is_new] = tries_.try_emplace(event);
    if (is_new) found->second = find(event);
    return found->second;
  }

  bool is_of_training(std::uint32_t row) const {
    return findings::is_of_training(facts_.trace.strings[facts_.trace.category(device_, row)]);
  }

  // How many calls the stacks share, from the outermost one.
  std::size_t shared(model::StackId a, model::StackId b) const {
    const auto first = facts_.trace.stacks.frames(a), second = facts_.trace.stacks.frames(b);
    const auto [end, other] =
        std::mismatch(first.rbegin(), first.rend(), second.rbegin(), second.rend());
    return static_cast<std::size_t>(end - first.rbegin());
  }

  // The line at which the call of a failed try leaves the calls of the last one.
  std::string call(const Try& failed, const Try& last) const {
    const auto frames = facts_.trace.stacks.frames(failed.stack);
    const std::size_t common = shared(failed.stack, last.stack);
    if (common >= frames.size()) return {};
    return model::package_line(facts_.trace, frames[frames.size() - 1 - common]);
  }

 private:
  Try find(std::uint32_t event) const {
    Try found{facts_.trace.site(device_, event).stack, {}};
    const model::Lifetimes& lifetimes = device_.lifetimes;
    const auto end = std::lower_bound(lifetimes.alloc.begin() + lifetimes.baseline_count,
                                      lifetimes.alloc.end(), event);
    auto row = static_cast<std::uint32_t>(end - lifetimes.alloc.begin());
    while (row > lifetimes.baseline_count && !is_of_training(row - 1)) --row;
    if (row > lifetimes.baseline_count) found.pass = evidence_.pass_of(row - 1);
    const auto has_line = [&] { return facts_.lines.why(found.stack) == model::NoLine::kHasLine; };
    while (!has_line() && row > lifetimes.baseline_count) {
      found.stack = facts_.trace.birth(device_, --row).stack;
    }
    return found;
  }

  const Facts& facts_;
  const model::DeviceTrace& device_;
  const evidence::Evidence& evidence_;
  std::map<std::uint32_t, Try> tries_;  // by event
};

}  // namespace

FailedTry failed_try(const Facts& facts, const DeviceFacts& device,
                     const report::OomDetails& last) {
  FailedTry found;
  const auto& ooms = device.report.oom_details;
  if (ooms.empty() || ooms.front().event >= last.event) return found;
  const model::DeviceTrace& trace = device.trace;
  const evidence::Evidence& evidence = facts.evidence(trace).evidence;
  Tries tries(facts, device);
  const Try& final_try = tries.at(static_cast<std::uint32_t>(last.event));
  for (const std::uint32_t row : model::live_set(trace, model::default_liveness(trace),
                                                 static_cast<std::int64_t>(last.event))) {
    const std::uint32_t born = trace.lifetimes.alloc[row];
    if (born == model::kNone || !tries.is_of_training(row)) continue;
    const auto next =
        std::ranges::upper_bound(ooms, std::uint64_t{born}, {}, &report::OomDetails::event);
    if (next == ooms.end() || next->event >= last.event) continue;
    const Try& failed = tries.at(static_cast<std::uint32_t>(next->event));
    const std::size_t common = tries.shared(failed.stack, final_try.stack);
    const bool is_of_call = tries.shared(facts.trace.stack(trace, row), failed.stack) > common;
    const evidence::Pass pass = evidence.pass_of(row);
    const bool is_repeated = pass.number > 0 && pass == failed.pass &&
                             pass.root == final_try.pass.root && pass != final_try.pass;
    if (!is_of_call && !is_repeated) continue;
    found.bytes += facts.trace.lifetime_bytes(trace, row);
    ++found.tensors;
    found.event = next->event;
    found.call = is_of_call ? tries.call(failed, final_try) : std::string();
  }
  return found;
}

}  // namespace plimsoll::findings
