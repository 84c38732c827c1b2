// The threads that write events, each with its context and its ring. A thread is added at its first
// call and removed when the system no longer knows it: after its last destructor of thread-local
// data, so that frees in those are recorded too. A new thread can then reuse its ring.
//
// Threads beyond kMaxRings, and those whose ring cannot be allocated, still have a context; their
// events are dropped and counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <type_traits>
#include <vector>

#include "plimsoll/recorder_c.h"
#include "record/hot/op_log.h"
#include "record/hot/ring.h"
#include "record/hot/uses.h"

namespace plimsoll::record {

inline constexpr std::uint64_t kRingEvents = 65'536;
inline constexpr std::size_t kMaxRings = 4'096;

// The state that the hooks need for a thread. A plimsoll_context* points to its first member.
struct alignas(64) ThreadState {
  plimsoll_context context{};
  Ring ring;
  std::uint32_t number = 0;  // of the thread, from 0, in order of first call
  RunningUses uses;

  // Owned by the registry, under its lock:
  enum class Life : std::uint8_t { kUnused, kRunning, kLeaving };
  Life life = Life::kUnused;
  std::int32_t system_id = 0;
  std::uint64_t left_at_ns = 0;

  bool is_listed = false;  // never reset

  // Owned by the drain:
  std::uint64_t dropped_reported = 0;
  OpLog* op_log = nullptr;  // created on demand, never freed
};
static_assert(std::is_standard_layout_v<ThreadState>);

class ThreadRegistry {
 public:
  ThreadRegistry() noexcept;
  ThreadRegistry(const ThreadRegistry&) = delete;
  ThreadRegistry& operator=(const ThreadRegistry&) = delete;

  // The calling thread's state; never null, always the same.
  ThreadState* current() noexcept;
  static ThreadState* of(plimsoll_context* context) noexcept {
    return reinterpret_cast<ThreadState*>(context);
  }

  // Counts an event of a thread without a ring, which no ring has counted.
  void count_lost() noexcept { lost_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

  // Appends every state whose ring may contain events. Called by the drain.
  void list(std::vector<ThreadState*>& states);
  // Removes threads that have exited and whose rings are empty. The drain calls it occasionally.
  void sweep() noexcept;

  // Calls visit(begin, size_bytes) for the memory of each ring.
  template <typename Visit>
  void visit_rings(Visit&& visit) {
    const std::lock_guard lock(mutex_);
    for (const ThreadState* state : states_) {
      const Ring& ring = state->ring;
      if (ring.slots() != nullptr) visit(ring.slots(), ring.capacity() * sizeof(Event));
    }
  }

  // Called around fork(). The child has only the calling thread.
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }
  void forget_other_threads() noexcept;  // between lock() and unlock()

  // Called by the system when the thread begins to exit.
  void leave(ThreadState* state) noexcept;

 private:
  ThreadState* take_state() noexcept;
  void give_ring(ThreadState& state) noexcept;

  std::mutex mutex_;
  std::vector<ThreadState*> states_;  // never deleted: a context may be used at any time
  std::uint32_t next_number_ = 0;
  std::size_t rings_ = 0;
  std::atomic<std::uint64_t> lost_{0};
};

}  // namespace plimsoll::record
