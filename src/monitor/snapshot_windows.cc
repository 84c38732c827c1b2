#include "monitor/snapshot_windows.h"

#include <algorithm>
#include <utility>

namespace plimsoll::monitor {

SnapshotWindows::SnapshotWindows(std::vector<std::int64_t> iterations)
    : iterations_(std::move(iterations)) {}

// Iterations may be numbered from 0 or from 1.
SnapshotWindows::Change SnapshotWindows::begin() {
  if (last_ || open_ || next_ == iterations_.size() || iterations_[next_] > 1) return {};
  open_ = iterations_[next_++];
  return {.ends = false, .begins = open_};
}

SnapshotWindows::Change SnapshotWindows::iteration_ended(std::int64_t iteration) {
  const std::int64_t before = last_.value_or(iteration - 1);
  const std::int64_t stride = std::max<std::int64_t>(iteration - before, 1);
  last_ = iteration;
  Change change;
  if (open_ && iteration >= *open_) {
    open_.reset();
    change.ends = true;
  }
  if (open_) return change;
  // Iterations that were skipped, or from before this run.
  while (next_ < iterations_.size() && iterations_[next_] <= before) ++next_;
  if (change.ends) {
    while (next_ < iterations_.size() && iterations_[next_] <= iteration) ++next_;
  }
  if (next_ < iterations_.size() && iterations_[next_] <= iteration + stride) {
    open_ = iterations_[next_++];
    change.begins = open_;
  }
  return change;
}

}  // namespace plimsoll::monitor
