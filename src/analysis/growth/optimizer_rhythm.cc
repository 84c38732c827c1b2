#include "analysis/growth/optimizer_rhythm.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/path_text.h"

namespace plimsoll::analysis::growth {
namespace {

using model::kNone;

// With random lengths, fewer than half are within a factor of two of the median.
constexpr double kRegularShare = 0.75;

// By stack: the frame that calls an optimizer's step, as a row of the frames; kNone if there is no
// optimizer. torch wraps the step of every optimizer, including third-party ones.
std::vector<std::uint32_t> callers_of_step(const model::StackTable& stacks,
                                           const model::StringTable& strings) {
  std::vector<bool> is_wrapper(stacks.frame_count());
  for (std::uint32_t row = 0; row < is_wrapper.size(); ++row) {
    const model::Frame& frame = stacks.frame(model::FrameId{row});
    const std::string_view function = strings[frame.function];
    const std::string_view name = function.substr(function.rfind('.') + 1);
    is_wrapper[row] = base::ends_with_path(strings[frame.file], "torch/optim/optimizer.py") &&
                      (name == "wrapper" || name == "profile_hook_step");
  }
  std::vector<std::uint32_t> callers(stacks.stack_count(), kNone);
  for (std::uint32_t row = 0; row < callers.size(); ++row) {
    bool is_inside = false;
    for (const model::FrameId id : stacks.frames(model::StackId{row})) {
      if (is_inside && !is_wrapper[id.index()]) {
        callers[row] = id.value;
        break;
      }
      is_inside = is_wrapper[id.index()];
    }
  }
  return callers;
}

}  // namespace

bool is_regular(const std::vector<std::uint32_t>& ends) {
  if (ends.size() < 3) return true;
  std::vector<std::uint32_t> lengths;
  for (std::size_t i = 1; i < ends.size(); ++i) lengths.push_back(ends[i] - ends[i - 1]);
  std::vector<std::uint32_t> sorted = lengths;
  std::ranges::sort(sorted);
  const std::uint64_t median = sorted[sorted.size() / 2];
  const auto alike = static_cast<double>(std::ranges::count_if(
      lengths, [&](std::uint64_t length) { return length * 2 >= median && length <= median * 2; }));
  return alike >= kRegularShare * static_cast<double>(lengths.size());
}

std::vector<std::uint32_t> find_optimizer_steps(const model::Trace& trace,
                                                const model::DeviceTrace& device) {
  const std::vector<std::uint32_t> callers = callers_of_step(trace.stacks, trace.strings);
  std::map<std::uint32_t, std::vector<std::uint32_t>> ends;  // by caller
  std::uint32_t last = kNone, running = kNone;
  for (std::uint32_t event = 0; event < device.events.size(); ++event) {
    if (device.events.action[event] != model::Action::kAlloc) continue;
    const std::uint32_t caller = callers[trace.site(device, event).stack.index()];
    if (running != kNone && caller != running) ends[running].push_back(last + 1);
    running = caller;
    last = event;
  }
  if (running != kNone) ends[running].push_back(last + 1);
  const auto most =
      std::ranges::max_element(ends, {}, [](const auto& each) { return each.second.size(); });
  if (most == ends.end() || !is_regular(most->second)) return {};
  return std::move(most->second);
}

}  // namespace plimsoll::analysis::growth
