#include "attribution/history_attribution.h"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/categories.h"
#include "model/categories.h"
#include "model/communication.h"

namespace plimsoll::attribution {
namespace {

using model::kNone;
using model::LifetimeFlags;
using model::Phase;
using readers::ThreadActivity;

constexpr std::int64_t kEver = std::numeric_limits<std::int64_t>::max();

// Categories of memory that a module or an optimizer owns, or that is the program's input, in order
// of precedence.
constexpr std::array kOwned = {model::kParameter, model::kGradient, model::kOptimizerState,
                               model::kBuffer, model::kInput};

std::size_t precedence(std::string_view category) {
  return static_cast<std::size_t>(kOwned.end() - std::ranges::find(kOwned, category));
}

bool is_reported(std::string_view category) {
  return !category.empty() && category != model::kUnknownCategory;
}

// An allocation of the history, found by address and birth.
struct Block {
  std::uint64_t address = 0;
  std::int64_t born_ns = 0;
  std::uint32_t lifetime = 0;
};

class Device {
 public:
  Device(const model::Trace& history, const model::DeviceTrace& device,
         const model::Trace& recorded, const Timeline& timeline)
      : history_(history), device_(device), recorded_(recorded), timeline_(timeline) {
    attributions_.resize(device.lifetimes.size());
  }

  void by_tensors(const model::DeviceTrace& tensors);
  void by_time();
  std::vector<Attribution> take() { return std::move(attributions_); }

 private:
  std::int64_t time_of(std::uint32_t event, std::int64_t otherwise) const {
    if (event == kNone || event == model::kBeforeRecording) return otherwise;
    return device_.events.time_ns[event];
  }
  std::int64_t born_ns(std::size_t row) const {
    return time_of(device_.lifetimes.alloc[row], model::kNoTime);
  }
  std::int64_t died_ns(std::size_t row) const {
    return time_of(device_.lifetimes.free_requested[row], kEver);
  }
  void take_tensor(Attribution& into, const model::DeviceTrace& tensors, std::size_t row) const;
  void take_point(Attribution& into, std::size_t row) const;
  bool is_communication(const Attribution& of, std::size_t row) const;

  const model::Trace& history_;
  const model::DeviceTrace& device_;
  const model::Trace& recorded_;
  const Timeline& timeline_;
  std::vector<Attribution> attributions_;
};

// A tensor lies in the block most recently allocated at its address when it was first seen.
void Device::by_tensors(const model::DeviceTrace& tensors) {
  std::vector<Block> blocks;
  for (std::uint32_t row = 0; row < attributions_.size(); ++row) {
    const bool has_time = device_.lifetimes.alloc[row] == kNone || born_ns(row) != model::kNoTime;
    if (has_time) blocks.push_back({history_.address(device_, row), born_ns(row), row});
  }
  const auto key = [](const Block& block) { return std::pair(block.address, block.born_ns); };
  std::ranges::stable_sort(blocks, {}, key);
  for (std::size_t row = 0; row < tensors.lifetimes.size(); ++row) {
    if (tensors.lifetimes.alloc[row] == kNone) continue;
    const std::uint32_t born = tensors.lifetimes.alloc[row];
    const std::uint64_t address = tensors.events.address[born];
    const std::int64_t time_ns = tensors.events.time_ns[born];
    const auto after = std::ranges::upper_bound(blocks, std::pair(address, time_ns), {}, key);
    if (after == blocks.begin()) continue;
    const Block& block = *(after - 1);
    const bool is_in =
        block.address == address &&
        tensors.events.size_bytes[born] <= history_.block_bytes(device_, block.lifetime) &&
        time_ns <= died_ns(block.lifetime);
    if (is_in) take_tensor(attributions_[block.lifetime], tensors, row);
  }
}

// The first tensor determines where the block was made; the tensor whose category has the highest
// precedence determines the category.
void Device::take_tensor(Attribution& into, const model::DeviceTrace& tensors,
                         std::size_t row) const {
  const std::string_view category = recorded_.strings[recorded_.category(tensors, row)];
  const LifetimeFlags flags = tensors.lifetimes.flags[row];
  const bool is_first = into.how != Attribution::How::kByTensor;
  if (is_first && !has(flags, LifetimeFlags::kAdopted)) {
    into.how = Attribution::How::kByTensor;
    into.site = recorded_.birth(tensors, row);
    into.flags = flags;
  }
  const bool has_precedence = precedence(category) > precedence(into.category);
  if (has_precedence || (is_reported(category) && !is_reported(into.category)))
    into.category = category;
  if (has_precedence || into.tensor == model::TensorId{})
    into.tensor = tensors.lifetimes.tensor[row];
}

void Device::by_time() {
  for (std::size_t row = 0; row < attributions_.size(); ++row) {
    Attribution& each = attributions_[row];
    if (each.how == Attribution::How::kNot) take_point(each, row);
    if (is_reported(each.category) && each.how == Attribution::How::kNot) {
      each.how = Attribution::How::kByTensor;  // the category only, not where it was made
    }
    if (each.category == model::kActivation && timeline_.has_backward(born_ns(row), died_ns(row))) {
      each.flags = each.flags | LifetimeFlags::kSavedForBackward;
    }
  }
}

void Device::take_point(Attribution& into, std::size_t row) const {
  const std::int64_t born = born_ns(row);
  const std::size_t at = born == model::kNoTime ? Timeline::kNothing : timeline_.before(born);
  if (at == Timeline::kNothing) return;
  const ThreadActivity& activity = timeline_[at];
  into.how = is_reported(into.category) ? Attribution::How::kByTensor : Attribution::How::kByTime;
  into.site.layer = activity.layer;
  into.site.op = into.site.inner_op = activity.op;
  into.site.phase = activity.phase;
  // Without recorded operators, temporary memory cannot be identified.
  if (is_reported(into.category) || !timeline_.reports_operators()) return;
  into.category =
      name_of(base::category_of({.phase = into.site.phase,
                                 .is_temporary = timeline_.is_in_op(at, died_ns(row)),
                                 .is_communication = is_communication(into, row),
                                 .ends_with_step = timeline_.is_in_step(born, died_ns(row))}));
  if (into.category == model::kTemporaryCategory) into.flags = LifetimeFlags::kTemporary;
}

// The stacks come from the history, the operators from the recording.
bool Device::is_communication(const Attribution& of, std::size_t row) const {
  return model::is_communication_op(recorded_.strings[of.site.op]) ||
         model::is_communication_stack(history_.stack(device_, row), history_.stacks,
                                       history_.strings);
}

}  // namespace

Timeline::Timeline(const model::Trace& recorded, const base::Column<ThreadActivity>& activities)
    : activities_(activities.begin(), activities.end()) {
  std::ranges::stable_sort(activities_, {}, &ThreadActivity::time_ns);
  ends_ns_.resize(activities_.size(), kEver);
  std::unordered_map<std::uint32_t, std::int64_t> next_ns;  // by thread
  for (std::size_t row = activities_.size(); row-- > 0;) {
    const auto [next, is_last] = next_ns.try_emplace(activities_[row].thread, kEver);
    ends_ns_[row] = next->second;
    next->second = activities_[row].time_ns;
  }
  Phase before = Phase::kOther;
  for (const ThreadActivity& activity : activities_) {
    if (activity.phase == Phase::kBackward && before != Phase::kBackward) {
      backwards_ns_.push_back(activity.time_ns);
    }
    before = activity.phase;
    reports_operators_ = reports_operators_ || activity.op != model::StringId{};
  }
  for (const model::Mark& mark : recorded.marks) {
    if (mark.kind == model::MarkKind::kBackwardBegin) backwards_ns_.push_back(mark.time_ns);
    if (mark.kind == model::MarkKind::kStep) steps_ns_.push_back(mark.time_ns);
  }
  std::ranges::sort(backwards_ns_);
  std::ranges::sort(steps_ns_);
}

std::size_t Timeline::before(std::int64_t time_ns) const {
  const auto after = std::ranges::upper_bound(activities_, time_ns, {}, &ThreadActivity::time_ns);
  return after == activities_.begin() ? kNothing
                                      : static_cast<std::size_t>(after - activities_.begin()) - 1;
}

bool Timeline::is_in_op(std::size_t row, std::int64_t time_ns) const {
  return activities_[row].op != model::StringId{} && time_ns <= ends_ns_[row] && time_ns != kEver;
}

bool Timeline::is_in_step(std::int64_t from_ns, std::int64_t to_ns) const {
  const auto next = std::ranges::upper_bound(steps_ns_, from_ns);
  return to_ns != kEver && (next == steps_ns_.end() || to_ns < *next);
}

bool Timeline::has_backward(std::int64_t from_ns, std::int64_t to_ns) const {
  const auto next = std::ranges::lower_bound(backwards_ns_, from_ns);
  return next != backwards_ns_.end() && *next < to_ns;
}

std::vector<Attribution> attribute_history(const model::Trace& history,
                                           const model::DeviceTrace& device,
                                           const model::Trace& recorded,
                                           const model::DeviceTrace* tensors,
                                           const Timeline& timeline) {
  Device work(history, device, recorded, timeline);
  if (tensors != nullptr) work.by_tensors(*tensors);
  work.by_time();
  return work.take();
}

}  // namespace plimsoll::attribution
