#include "readers/kineto/span_index.h"

#include <algorithm>
#include <tuple>

namespace plimsoll::readers::kineto {
SpanIndex::SpanIndex(const Recording& recording) : recording_(recording) {
  const auto& spans = recording.spans;
  starts_.assign(recording.threads.size() + 1, 0);
  for (const Span& span : spans) ++starts_[span.thread.index() + 1];
  for (std::size_t thread = 1; thread < starts_.size(); ++thread) {
    starts_[thread] += starts_[thread - 1];
  }
  std::vector<std::uint64_t> next(starts_.begin(), starts_.end() - 1);
  rows_.resize(spans.size());
  for (std::uint32_t row = 0; row < spans.size(); ++row) {
    rows_[next[spans[row].thread.index()]++] = row;
  }
  auto less = [&](std::uint32_t a, std::uint32_t b) {
    const Span& left = spans[a];
    const Span& right = spans[b];
    return std::tuple(left.begin_ns, -left.end_ns, a) <
           std::tuple(right.begin_ns, -right.end_ns, b);
  };
  for (std::size_t thread = 0; thread + 1 < starts_.size(); ++thread) {
    std::uint32_t* const first = rows_.data() + starts_[thread];
    std::uint32_t* const last = rows_.data() + starts_[thread + 1];
    if (!std::is_sorted(first, last, less)) std::sort(first, last, less);
  }
}

void SpanIndex::sort(std::vector<TimePoint>& points) {
  std::ranges::sort(points, {}, [](const TimePoint& point) {
    return std::tuple(point.thread, point.time_ns, point.row);
  });
}

// A span includes its first and last nanosecond: traces from 2021 have only microseconds, and an
// allocation often coincides with the operator's end.
void SpanIndex::Sweep::advance(std::int64_t time_ns) {
  for (; next_ < rows_.size(); ++next_) {
    const Span& span = recording_.spans[rows_[next_]];
    if (span.begin_ns > time_ns) break;
    if (span.kind == SpanKind::kAnnotation || span.end_ns < time_ns) continue;
    auto& open = span.kind == SpanKind::kOperator ? open_.operators : open_.python;
    // If two neighbors share a nanosecond, it belongs to the later one.
    while (!open.empty() && recording_.spans[open.back()].end_ns <= span.begin_ns) open.pop_back();
    open.push_back(rows_[next_]);
  }
  pop_ended(open_.python, time_ns);
  pop_ended(open_.operators, time_ns);
  copy_open(open_.python, time_ns, answer_.python);
  copy_open(open_.operators, time_ns, answer_.operators);
}

void SpanIndex::Sweep::pop_ended(std::vector<std::uint32_t>& open, std::int64_t time_ns) const {
  while (!open.empty() && recording_.spans[open.back()].end_ns < time_ns) open.pop_back();
}

// Because spans may cross, one below the top may already have ended.
void SpanIndex::Sweep::copy_open(const std::vector<std::uint32_t>& open, std::int64_t time_ns,
                                 std::vector<std::uint32_t>& into) const {
  into.clear();
  const std::size_t first = open.size() - std::min(open.size(), kDeepestStack);
  for (std::size_t at = first; at < open.size(); ++at) {
    if (recording_.spans[open[at]].end_ns >= time_ns) into.push_back(open[at]);
  }
}

}  // namespace plimsoll::readers::kineto
