#include "analysis/oom/history.h"

#include <algorithm>
#include <string_view>

#include "model/categories.h"
#include "model/live_set.h"
#include "model/steps.h"

namespace plimsoll::analysis::oom {
namespace {

// The number of innermost frames that distinguish calls of one function. Outer frames differ
// between the loops of one program.
constexpr std::size_t kInnermostFrames = 8;

// In longer recordings, only the last allocations are compared.
constexpr std::size_t kMostMade = std::size_t{1} << 21;

constexpr std::uint64_t kHashFactor = 0x9E37'79B9'7F4A'7C15;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * kHashFactor;
  return hash ^ (hash >> 29);
}

bool is_of_backward(std::string_view category) {
  return category == model::kGradient || category == model::kActivationGradient;
}
bool is_of_optimizer(std::string_view category) {
  return category == model::kOptimizerState || category == model::kOptimizerScratch;
}
bool is_of_forward(std::string_view category) {
  return category == model::kActivation || category == model::kTemporaryCategory ||
         category == model::kInput;
}

}  // namespace

bool History::scales(std::string_view category) {
  return is_of_forward(category) || category == model::kActivationGradient ||
         category == model::kOtherCategory || category == model::kUnknownCategory ||
         category.empty();
}

History::History(const model::Trace& trace, const model::DeviceTrace& device,
                 const model::UserLines& lines)
    : trace_(trace), device_(device), lines_(lines), stacks_(trace, lines) {
  const model::Lifetimes& lifetimes = device.lifetimes;
  const std::size_t count = lifetimes.size() - lifetimes.baseline_count;
  for (std::size_t row = lifetimes.size() - std::min(count, kMostMade); row < lifetimes.size();
       ++row) {
    if (has(lifetimes.flags[row], model::LifetimeFlags::kAdopted)) continue;
    const std::string_view category = trace.strings[trace.category(device, row)];
    if (category == model::kWorkspace) continue;
    const std::uint32_t died = model::death(lifetimes, row, model::default_liveness(device));
    const model::Site& site = trace.birth(device, row);
    made_.push_back(Made{static_cast<std::uint32_t>(row), lifetimes.alloc[row],
                         died == model::kNone ? kNever : died, trace.lifetime_bytes(device, row),
                         trace.size_bytes(device, row), place_of(site),
                         scales(category) && site.phase != model::Phase::kOptimizer});
  }
  for (std::uint32_t event = 0; event < device.events.size(); ++event) {
    if (device.events.action[event] == model::Action::kOom) failures_.push_back(event);
  }
  ends_ = marked_ends();
  if (ends_.empty()) ends_ = ends_of_rounds();
  if (ends_.empty()) ends_ = ends_of_calls();
}

std::uint64_t History::place_of(const model::Site& site) const {
  const auto frames = trace_.stacks.frames(site.stack);
  if (trace_.has_layers() || trace_.has_phases()) {
    // Use the innermost frame of any file, because a layer of torch is the same wherever it is
    // called.
    const std::uint64_t frame = frames.empty() ? 0 : frames.front().value + std::uint64_t{1};
    std::uint64_t hash = mixed(frame, site.layer.value);
    hash = mixed(hash, site.op.value);
    hash = mixed(hash, site.forward_op.value);
    // Outside layers, forward is known only in hindsight, and never for a failed request.
    const bool is_forward = site.phase == model::Phase::kForward;
    return mixed(hash, static_cast<std::uint64_t>(is_forward ? model::Phase::kOther : site.phase));
  }
  std::uint64_t hash = 0;
  for (const model::FrameId frame : frames.first(std::min(kInnermostFrames, frames.size()))) {
    hash = mixed(hash, frame.value + 1);
  }
  return hash;
}

std::size_t History::first_after(std::uint32_t event) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(made_, event, {}, &Made::born) -
                                  made_.begin());
}

Step History::make_step(std::uint32_t begin, std::uint32_t end) const {
  // A program that catches the error and retries starts the step again.
  const auto after = std::ranges::lower_bound(failures_, end);
  if (after != failures_.begin()) begin = std::max(begin, *std::prev(after) + 1);
  return Step{begin, end, first_after(begin), first_after(end)};
}

std::vector<Step> History::steps_before(std::uint32_t event) const {
  std::vector<Step> steps;
  std::uint32_t begin = 0;
  for (const std::uint32_t end : ends_) {
    if (end > event) break;
    if (end > begin) steps.push_back(make_step(begin, end));
    begin = end;
  }
  return steps;
}

Step History::step_of(std::uint32_t event) const {
  const auto next = std::ranges::upper_bound(ends_, event);
  return make_step(next == ends_.begin() ? 0 : *std::prev(next), event);
}

std::vector<std::uint32_t> History::marked_ends() const {
  std::vector<std::uint32_t> ends;
  for (const model::StepEnd& end : model::step_ends(trace_, device_)) {
    if (ends.empty() || ends.back() != end.event) ends.push_back(end.event);
  }
  return ends;
}

std::vector<std::uint32_t> History::ends_of_rounds() const {
  std::vector<std::uint32_t> ends;
  bool has_forward = false, is_after = false;
  for (const Made& made : made_) {
    const std::string_view category = trace_.strings[trace_.category(device_, made.row)];
    if (is_of_backward(category) || is_of_optimizer(category)) {
      is_after = is_after || has_forward;
    } else if (is_of_forward(category) && !stacks_.has(trace_.birth(device_, made.row).stack,
                                                       evidence::StackFlag::kRecomputed)) {
      if (is_after) ends.push_back(made.born);
      is_after = false;
      has_forward = true;
    }
  }
  return ends;
}

std::vector<std::uint32_t> History::ends_of_calls() const {
  std::vector<std::uint32_t> ends;
  std::size_t depth = 0;
  for (std::size_t row = 0; row < device_.mark_events.size(); ++row) {
    const model::MarkKind kind = trace_.marks[row].kind;
    if (kind == model::MarkKind::kLayerBegin) ++depth;
    if (kind != model::MarkKind::kLayerEnd || depth == 0) continue;
    --depth;
    if (depth > 0) continue;
    const std::uint32_t event = device_.mark_events[row];
    if (ends.empty() || ends.back() != event) ends.push_back(event);
  }
  return ends;
}

}  // namespace plimsoll::analysis::oom
