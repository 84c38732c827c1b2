// Progress of a long job, and its cancellation. The job calls `advance` regularly, on its own
// thread; the caller decides what to show.
#pragma once

#include <atomic>
#include <cstdint>

namespace plimsoll::base {

class Progress {
 public:
  virtual ~Progress() = default;
  // `total` is 0 if unknown.
  virtual void advance(const char* stage, std::uint64_t done, std::uint64_t total) {
    static_cast<void>(stage), static_cast<void>(done), static_cast<void>(total);
  }

  // Any thread or signal handler may request an interruption; the job checks for it whenever it
  // advances. Relaxed, because it carries no data.
  void interrupt() { interrupted_.store(true, std::memory_order_relaxed); }
  bool interrupted() const { return interrupted_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> interrupted_{false};
};

}  // namespace plimsoll::base
