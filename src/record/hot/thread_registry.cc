#include "record/hot/thread_registry.h"

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>

#include "record/hot/ticks.h"

#if defined(__linux__)
#include <sys/syscall.h>
#endif

namespace plimsoll::record {
namespace {

// Longer than any thread takes to exit.
constexpr std::uint64_t kLeavingNs = 10'000'000'000;

constexpr std::size_t kRingBytes = kRingEvents * sizeof(Event);

thread_local ThreadState* t_state [[gnu::tls_model("initial-exec")]] = nullptr;

struct ExitKey {
  pthread_key_t key{};
  bool is_made = false;
};
ExitKey exit_key;
ThreadRegistry* exit_registry = nullptr;

extern "C" void thread_leaves(void* state) {
  exit_registry->leave(static_cast<ThreadState*>(state));
}

std::int32_t system_thread_id() noexcept {
#if defined(__linux__)
  return static_cast<std::int32_t>(syscall(SYS_gettid));
#else
  return 0;
#endif
}

bool is_gone(std::int32_t system_id) noexcept {
  if (system_id < 0) return true;
#if defined(__linux__)
  return syscall(SYS_tgkill, getpid(), system_id, 0) != 0 && errno == ESRCH;
#else
  return false;
#endif
}

// For threads created when no memory is available. If there are more of these, they share the last
// one: their events are dropped anyway, but their contexts mix.
constinit std::array<ThreadState, 32> g_last_resorts;
constinit std::atomic<std::size_t> g_last_resorts_taken{0};
thread_local ThreadState* t_last_resort [[gnu::tls_model("initial-exec")]] = nullptr;

ThreadState* last_resort() noexcept {
  if (t_last_resort == nullptr) {
    const std::size_t number = g_last_resorts_taken.fetch_add(1, std::memory_order_relaxed);
    t_last_resort = &g_last_resorts[std::min(number, g_last_resorts.size() - 1)];
  }
  return t_last_resort;
}

}  // namespace

ThreadRegistry::ThreadRegistry() noexcept {
  exit_registry = this;
  exit_key.is_made = pthread_key_create(&exit_key.key, thread_leaves) == 0;
}

ThreadState* ThreadRegistry::current() noexcept {
  if (t_state != nullptr) [[likely]]
    return t_state;
  ThreadState* state = take_state();
  if (state == nullptr) return last_resort();
  t_state = state;
  if (exit_key.is_made) pthread_setspecific(exit_key.key, state);
  return state;
}

ThreadState* ThreadRegistry::take_state() noexcept try {
  const std::lock_guard lock(mutex_);
  ThreadState* state = nullptr;
  for (ThreadState* other : states_) {
    if (other->life == ThreadState::Life::kUnused) {
      state = other;
      if (other->ring.capacity() > 0) break;  // prefer one with a ring
    }
  }
  if (state == nullptr) {
    auto made = std::make_unique<ThreadState>();
    states_.push_back(made.get());
    made->is_listed = true;
    state = made.release();
  }
  if (state->ring.capacity() == 0) give_ring(*state);
  state->context = plimsoll_context{};
  state->number = next_number_++;
  state->system_id = system_thread_id();
  state->life = ThreadState::Life::kRunning;
  return state;
} catch (...) {
  return nullptr;
}

void ThreadRegistry::give_ring(ThreadState& state) noexcept {
  if (rings_ == kMaxRings) return;
#if defined(MAP_NORESERVE)
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
#else
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
#endif
  void* memory = mmap(nullptr, kRingBytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (memory == MAP_FAILED) return;
#if defined(MADV_NOHUGEPAGE)
  madvise(memory, kRingBytes, MADV_NOHUGEPAGE);  // avoid two megabytes of huge page for a few
                                                 // events
#endif
  ++rings_;
  state.ring.attach(static_cast<Event*>(memory), kRingEvents);
}

void ThreadRegistry::leave(ThreadState* state) noexcept {
  const std::lock_guard lock(mutex_);
  state->life = ThreadState::Life::kLeaving;
  state->left_at_ns = clock_ns();
}

void ThreadRegistry::list(std::vector<ThreadState*>& states) {
  const std::lock_guard lock(mutex_);
  for (ThreadState* state : states_) {
    if (state->life != ThreadState::Life::kUnused) states.push_back(state);
  }
}

// An exiting thread may still run destructors of thread-local data, which may free memory: its
// state is reused only when the system no longer knows the thread.
void ThreadRegistry::sweep() noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint64_t now_ns = clock_ns();
  for (ThreadState* state : states_) {
    if (state->life == ThreadState::Life::kUnused) continue;
    const bool left_long_ago =
        state->life == ThreadState::Life::kLeaving && now_ns - state->left_at_ns > kLeavingNs;
    if (!left_long_ago && !is_gone(state->system_id)) continue;
    Ring& ring = state->ring;
    if (ring.head() != ring.tail() || ring.dropped() != state->dropped_reported) continue;
    state->life = ThreadState::Life::kUnused;
    if (ring.capacity() == 0) continue;
    ring.restart();
    madvise(ring.slots(), kRingBytes, MADV_DONTNEED);
  }
}

void ThreadRegistry::forget_other_threads() noexcept {
  for (ThreadState* state : states_) {
    if (state->life == ThreadState::Life::kUnused) continue;
    if (state == t_state) {
      state->system_id = system_thread_id();
    } else {
      state->system_id = -1;  // no such thread any more: it has exited
    }
  }
}

}  // namespace plimsoll::record
