// SpanIndex finds the spans that enclose a point in time on a thread. A sweep visits the spans of
// one thread in order of start and the queries in order of time. Python calls and operators use two
// stacks, because they may cross (an operator entered inside a call of __enter__ outlives it).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/column.h"
#include "readers/kineto/recording.h"

namespace plimsoll::readers::kineto {

// Deeper stacks are implausible; their outermost frames are omitted.
inline constexpr std::size_t kDeepestStack = 1024;

// One query. `row` belongs to the caller.
struct TimePoint {
  ThreadId thread;
  std::int64_t time_ns = 0;
  std::uint32_t row = 0;
};

// Rows of Recording::spans that enclose a point in time, outermost first, without annotations.
struct Enclosing {
  std::vector<std::uint32_t> python;  // Python calls and modules
  std::vector<std::uint32_t> operators;
};

class SpanIndex {
 public:
  explicit SpanIndex(const Recording& recording);

  // Calls answer(time, enclosing) for each query, thread by thread in order of time.
  template <typename Answer>
  void sweep(std::vector<TimePoint>& points, Answer&& answer) const;

  // Span rows of a thread by their start, outer before inner.
  std::span<const std::uint32_t> of_thread(ThreadId thread) const {
    return rows_.span(starts_[thread.index()],
                      starts_[thread.index() + 1] - starts_[thread.index()]);
  }

 private:
  class Sweep {
   public:
    Sweep(const Recording& recording, std::span<const std::uint32_t> rows)
        : recording_(recording), rows_(rows) {}
    void advance(std::int64_t time_ns);
    const Enclosing& enclosing() const { return answer_; }

   private:
    void pop_ended(std::vector<std::uint32_t>& open, std::int64_t time_ns) const;
    void copy_open(const std::vector<std::uint32_t>& open, std::int64_t time_ns,
                   std::vector<std::uint32_t>& into) const;

    const Recording& recording_;
    std::span<const std::uint32_t> rows_;
    std::size_t next_ = 0;
    Enclosing open_;
    Enclosing answer_;
  };

  static void sort(std::vector<TimePoint>& points);

  const Recording& recording_;
  base::Column<std::uint32_t> rows_;
  std::vector<std::uint64_t> starts_;  // thread t has rows_[starts_[t] .. starts_[t + 1])
};

template <typename Answer>
void SpanIndex::sweep(std::vector<TimePoint>& points, Answer&& answer) const {
  sort(points);
  for (std::size_t first = 0; first < points.size();) {
    Sweep sweep(recording_, of_thread(points[first].thread));
    std::size_t at = first;
    for (; at < points.size() && points[at].thread == points[first].thread; ++at) {
      sweep.advance(points[at].time_ns);
      answer(points[at], sweep.enclosing());
    }
    first = at;
  }
}

}  // namespace plimsoll::readers::kineto
