// The threads that make events, each with its context and its ring. A thread is met at its first
// call and left when the system does not know it any more: after its last destructor of
// thread-local data, so that what they free is recorded too. Its ring goes to a new thread then.
//
// Threads beyond kMaxRings, and those for whose ring there is no memory, have a context all the
// same; their events are dropped and counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <type_traits>
#include <vector>

#include "plimsoll/recorder_c.h"
#include "record/hot/op_log.h"
#include "record/hot/ring.h"

namespace plimsoll::record {

inline constexpr std::uint64_t kRingEvents = 65'536;
inline constexpr std::size_t kMaxRings = 4'096;

// What the hooks write through; a plimsoll_context* of ours points to its first member.
struct alignas(64) ThreadState {
  plimsoll_context context{};
  Ring ring;
  std::uint32_t number = 0;  // of the thread, from 0, in the order of their first calls

  // The registry's, under its lock.
  enum class Life : std::uint8_t { kUnused, kRunning, kLeaving };
  Life life = Life::kUnused;
  std::int32_t system_id = 0;
  std::uint64_t left_at_ns = 0;

  bool is_listed = false;  // once it was, for ever

  // The drain's.
  std::uint64_t dropped_told = 0;
  OpLog* op_log = nullptr;  // made when it is needed, kept for ever
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

  // Of threads for which there was no memory at all: events that no ring has counted.
  void count_lost() noexcept { lost_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

  // Appends every state whose ring may hold events. For the drain.
  void list(std::vector<ThreadState*>& states);
  // Gives up threads that are gone and whose rings are empty. For the drain, now and then.
  void sweep() noexcept;

  // Around fork. In the child only the calling thread is left.
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }
  void forget_other_threads() noexcept;  // between lock() and unlock()

  // The thread has begun to end; called by the system.
  void leave(ThreadState* state) noexcept;

 private:
  ThreadState* take_state() noexcept;
  void give_ring(ThreadState& state) noexcept;

  std::mutex mutex_;
  std::vector<ThreadState*> states_;  // they are never deleted: contexts may be held for ever
  std::uint32_t next_number_ = 0;
  std::size_t rings_ = 0;
  std::atomic<std::uint64_t> lost_{0};
};

}  // namespace plimsoll::record
