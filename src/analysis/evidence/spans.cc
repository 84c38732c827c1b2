#include "analysis/evidence/spans.h"

#include <algorithm>
#include <iterator>

namespace plimsoll::analysis::evidence {
namespace {

// A median of fewer steps is no typical step.
constexpr std::size_t kFewestSteps = 2;

using Events = std::vector<std::uint32_t>;

// The first event in [begin, end) that shows that the backward has ended; nothing if none does.
std::optional<std::uint32_t> first_after_backward(const model::Trace& trace,
                                                  const model::DeviceTrace& device,
                                                  const Events& steps, std::uint32_t begin,
                                                  std::uint32_t end) {
  std::uint32_t last = begin;  // past the last allocation of the backward
  std::optional<std::uint32_t> outside;
  for (std::uint32_t event = begin; event < end; ++event) {
    if (device.events.action[event] != model::Action::kAlloc) continue;
    const bool is_backward = trace.site(device, event).phase == model::Phase::kBackward;
    if (is_backward) {
      // Another thread allocated this while backward was still running.
      last = event + 1;
      outside.reset();
    } else if (!outside) {
      outside = event;
    }
  }
  const auto step = std::ranges::lower_bound(steps, last);
  const bool is_step_first = step != steps.end() && *step < outside.value_or(end);
  return is_step_first ? *step : outside;
}

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

Events marks_of(const model::Trace& trace, const model::DeviceTrace& device, model::MarkKind kind) {
  Events events;
  for (std::size_t row = 0; row < device.mark_events.size(); ++row) {
    if (trace.marks[row].kind == kind) events.push_back(device.mark_events[row]);
  }
  return events;
}

Events backward_ends(const model::Trace& trace, const model::DeviceTrace& device) {
  const Events steps = marks_of(trace, device, model::MarkKind::kStep);
  const Events begins = marks_of(trace, device, model::MarkKind::kBackwardBegin);
  Events ends;
  Events open;  // begins of the backwards that have not ended, outermost first
  for (std::size_t row = 0; row < device.mark_events.size(); ++row) {
    const std::uint32_t event = device.mark_events[row];
    if (trace.marks[row].kind == model::MarkKind::kBackwardBegin) open.push_back(event);
    if (trace.marks[row].kind != model::MarkKind::kBackwardEnd) continue;
    const std::uint32_t begin = open.empty() ? event : open.back();
    if (!open.empty()) open.pop_back();
    const bool is_late = std::ranges::binary_search(begins, event);
    ends.push_back(
        is_late ? first_after_backward(trace, device, steps, begin, event).value_or(event) : event);
  }
  if (open.size() == 1) {
    const auto last = static_cast<std::uint32_t>(device.events.size());
    const auto end = first_after_backward(trace, device, steps, open.front(), last);
    if (end) ends.push_back(*end);
  }
  std::ranges::sort(ends);
  return ends;
}

Spans::Spans(const model::Trace& trace, const model::DeviceTrace& device)
    : lifetimes_(device.lifetimes),
      backwards_(outermost(marks_of(trace, device, model::MarkKind::kBackwardBegin),
                           backward_ends(trace, device))),
      steps_(marks_of(trace, device, model::MarkKind::kStep)),
      collections_(marks_of(trace, device, model::MarkKind::kCollectionBegin)) {
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
