// Progress: how a long job tells how far it is, and learns that it should stop. The job calls
// `advance` every so often; whoever started it decides what to show. Called on the job's thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace plimsoll::base {

class Progress {
 public:
  virtual ~Progress() = default;
  // `total` is 0 when it is unknown.
  virtual void advance(const char* stage, std::uint64_t done, std::uint64_t total) {
    static_cast<void>(stage), static_cast<void>(done), static_cast<void>(total);
  }

  // Any thread (or a signal handler) may ask; the job looks when it advances. Relaxed: it carries
  // no data.
  void interrupt() { interrupted_.store(true, std::memory_order_relaxed); }
  bool interrupted() const { return interrupted_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> interrupted_{false};
};

}  // namespace plimsoll::base
