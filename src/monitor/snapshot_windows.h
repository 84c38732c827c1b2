// Decides which iterations of snapshot_at to record, and when: each from the end of the iteration
// before it to its own end. The caller does the recording.
//
// Iterations are reported as they end, at any interval: a loop that reports only every tenth
// iteration gets a window over the ten iterations that include the requested one. If a requested
// iteration ended without a window (the first of a resumed run), the next one is recorded instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace plimsoll::monitor {

class SnapshotWindows {
 public:
  struct Change {
    bool ends = false;                   // the open window ends here
    std::optional<std::int64_t> begins;  // the iteration whose window begins here
  };

  explicit SnapshotWindows(std::vector<std::int64_t> iterations);  // ascending

  // Called before the first iteration.
  Change begin();
  Change iteration_ended(std::int64_t iteration);

  bool is_open() const { return open_.has_value(); }

 private:
  std::vector<std::int64_t> iterations_;
  std::size_t next_ = 0;
  std::optional<std::int64_t> open_;
  std::optional<std::int64_t> last_;
};

}  // namespace plimsoll::monitor
