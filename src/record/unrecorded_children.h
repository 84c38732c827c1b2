// Counts the forked children of this process that allocate memory without a recording. The count is
// in memory shared with the children. Lock-free. If shared memory is unavailable, nothing is
// counted.
#pragma once

#include <atomic>
#include <cstdint>

namespace plimsoll::record {

class UnrecordedChildren {
 public:
  // Call this when a recording of this process begins.
  void begin() noexcept;
  std::uint64_t count() const noexcept;

  enum class Child : std::uint8_t { kRecorded, kUnrecorded, kOfNoRecording };
  void begin_in_child(Child child) noexcept;
  // Called when this process allocates without a recording; counts it once if it is such a child.
  void allocates() noexcept {
    if (parents_.load(std::memory_order_relaxed) != nullptr) count_this_process();
  }

 private:
  using Count = std::atomic<std::uint32_t>;

  void count_this_process() noexcept;

  Count* own_ = nullptr;        // of this process's children; lives until the process ends
  Count* of_parent_ = nullptr;  // null: this process is not such a child
  std::atomic<Count*> parents_{nullptr};  // the same, until this process is counted
};

}  // namespace plimsoll::record
