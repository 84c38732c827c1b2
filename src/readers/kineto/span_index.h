// SpanIndex: which spans enclose a moment on a thread. Spans of one thread are swept in order of
// their beginning, beside the questions in order of their time; Python calls and operators are two
// stacks, because they may cross (an operator entered inside a call of __enter__ outlives it).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/column.h"
#include "readers/kineto/recording.h"

namespace plimsoll::readers::kineto {

// A stack deeper than this is not believed; its outermost frames are left out.
inline constexpr std::size_t kDeepestStack = 1024;

// One moment asked about. `row` is the asker's own.
struct Moment {
  ThreadId thread;
  std::int64_t time_ns = 0;
  std::uint32_t row = 0;
};

// Rows of Recording::spans that enclose a moment, outermost first. Annotations are not among them.
struct Enclosing {
  std::vector<std::uint32_t> python;  // Python calls and modules
  std::vector<std::uint32_t> operators;
};

class SpanIndex {
 public:
  explicit SpanIndex(const Recording& recording);

  // Calls answer(moment, enclosing) for each moment, thread by thread in order of time.
  template <typename Answer>
  void sweep(std::vector<Moment>& moments, Answer&& answer) const;

  // Span rows of a thread in order of their beginning, the outer before the inner.
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

  static void sort(std::vector<Moment>& moments);

  const Recording& recording_;
  base::Column<std::uint32_t> rows_;
  std::vector<std::uint64_t> starts_;  // thread t has rows_[starts_[t] .. starts_[t + 1])
};

template <typename Answer>
void SpanIndex::sweep(std::vector<Moment>& moments, Answer&& answer) const {
  sort(moments);
  for (std::size_t first = 0; first < moments.size();) {
    Sweep sweep(recording_, of_thread(moments[first].thread));
    std::size_t at = first;
    for (; at < moments.size() && moments[at].thread == moments[first].thread; ++at) {
      sweep.advance(moments[at].time_ns);
      answer(moments[at], sweep.enclosing());
    }
    first = at;
  }
}

}  // namespace plimsoll::readers::kineto
