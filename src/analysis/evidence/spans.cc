#include "analysis/evidence/spans.h"

#include <algorithm>
#include <iterator>

#include "analysis/evidence/backwards.h"

namespace plimsoll::analysis::evidence {
namespace {

// A median of fewer steps is no typical step.
constexpr std::size_t kFewestSteps = 2;

std::vector<Span> outermost(const std::vector<std::uint32_t>& begins,
                            const std::vector<std::uint32_t>& ends) {
  std::vector<Span> backwards;
  std::size_t depth = 0;
  auto end = ends.begin();
  for (auto begin = begins.begin(); begin != begins.end() || end != ends.end();) {
    const bool is_end = end != ends.end() &&
                        (begin == begins.end() || *end < *begin || (*end == *begin && depth > 0));
    if (is_end && depth > 0) {
      if (--depth == 0) backwards.back().end = *end;
    } else if (!is_end && depth++ == 0) {
      backwards.push_back({*begin});
    }
    ++(is_end ? end : begin);
  }
  return backwards;
}

}  // namespace

Spans::Spans(const model::Trace& trace, const model::DeviceTrace& device)
    : lifetimes_(device.lifetimes),
      backwards_(outermost(marks_of(trace, device, model::MarkKind::kBackwardBegin),
                           backward_ends(trace, device))),
      steps_(marks_of(trace, device, model::MarkKind::kStep)) {
  for (std::size_t row = 0; row < device.mark_events.size(); ++row) {
    const model::Mark& mark = trace.marks[row];
    if (mark.kind != model::MarkKind::kCollectionBegin) continue;
    collections_.push_back(device.mark_events[row]);
    if (mark.is_full) full_collections_.push_back(device.mark_events[row]);
  }
  for (std::uint32_t event = 0; event < device.events.size(); ++event) {
    if (device.events.action[event] == model::Action::kOom) ooms_.push_back(event);
  }
}

std::size_t Spans::backward_at(std::uint32_t event) const {
  const std::size_t begun = round(event);
  if (begun == 0) return backwards_.size();
  const std::uint32_t end = backwards_[begun - 1].end;
  return end != model::kNone && event >= end ? backwards_.size() : begun - 1;
}

std::uint32_t Spans::round(std::uint32_t event) const {
  const auto after = std::ranges::upper_bound(backwards_, event, {}, &Span::begin);
  return static_cast<std::uint32_t>(after - backwards_.begin());
}

std::uint32_t Spans::step(std::uint32_t event) const {
  return static_cast<std::uint32_t>(std::ranges::upper_bound(steps_, event) - steps_.begin());
}

std::uint32_t Spans::end_of_step(std::uint32_t event) const {
  const auto end = std::ranges::upper_bound(steps_, event);
  return end == steps_.end() ? model::kNone : *end;
}

std::uint64_t Spans::allocations(std::uint32_t from, std::uint32_t to) const {
  const std::uint32_t* const begin = lifetimes_.alloc.data() + lifetimes_.baseline_count;
  const std::uint32_t* const end = lifetimes_.alloc.data() + lifetimes_.size();
  const std::uint32_t* const first = std::lower_bound(begin, end, from);
  return static_cast<std::uint64_t>(std::lower_bound(first, end, std::max(from, to)) - first);
}

std::optional<std::uint64_t> Spans::allocations_per_step() const {
  std::vector<std::uint32_t> marks = steps_;
  if (marks.size() <= kFewestSteps) {
    marks.clear();
    for (const Span& backward : backwards_) marks.push_back(backward.begin);
  }
  if (marks.size() <= kFewestSteps) return std::nullopt;
  std::vector<std::uint64_t> lengths;
  for (std::size_t i = 1; i < marks.size(); ++i) {
    lengths.push_back(allocations(marks[i - 1], marks[i]));
  }
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::ranges::nth_element(lengths, middle);
  return *middle;
}

}  // namespace plimsoll::analysis::evidence
