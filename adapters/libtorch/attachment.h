// The attached state that all hooks read: the recorder's interface and the chosen mode.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>

#include "plimsoll/recorder_c.h"

namespace plimsoll::libtorch {

struct ThreadState;

inline constexpr std::uint8_t kCpu = 0;  // the recorder's device number of the CPU

// Whose dtype and shape are recorded when an operator returns: those of all its results, or of the
// ones that it has allocated.
enum class Outputs : std::uint8_t { kIgnored, kNew, kAll };

// Reads the stacks of Python code or, in a C++ program, of its functions.
struct StackSource {
  // This thread's stack now, as an id; 0 if it has none. Needs no GIL.
  std::uint32_t (*capture)(ThreadState& thread) = nullptr;
  // The stack of Python code that an autograd node runs: its frames on top of the forward's.
  std::uint32_t (*capture_in_node)(ThreadState& thread) = nullptr;
  // The address of a pointer in this thread's Python state that differs while code called from C++
  // runs; null: this thread has no Python. Valid as long as the thread's Python frames exist.
  const void* const* (*position)() = nullptr;
  // Defines in the recorder the stacks that this thread has seen for the first time. Takes the GIL.
  void (*define)(ThreadState& thread) = nullptr;
};

// An object that is never destroyed and needs no heap memory.
template <typename T>
class Immortal {
 public:
  Immortal() { ::new (static_cast<void*>(bytes_)) T; }
  T& get() { return *std::launder(reinterpret_cast<T*>(bytes_)); }

 private:
  alignas(T) unsigned char bytes_[sizeof(T)];
};

inline constexpr StackSource kNoStacks;

// Finds what runs on this thread where nothing observes the operators (python/native). `base`: the
// stack pointer before the call of the hook that calls this.
struct NativeSource {
  // Before an allocation: sets the thread's context.
  void (*describe)(ThreadState& thread, const char* base) = nullptr;
  // Before anything else: clears the context if its operator has ended.
  void (*settle)(ThreadState& thread, const char* base) = nullptr;
};

// The stack pointer before the call of this function, which must not be inlined.
#define PLIMSOLL_STACK_BASE (static_cast<const char*>(__builtin_frame_address(0)) + 16)

// All are atomic: a thread may still be in a hook of the last attachment while the next begins.
struct Attachment {
  std::atomic<const plimsoll_recorder_api*> api{nullptr};  // set once, before is_on
  std::atomic<bool> is_on{false};
  std::atomic<std::uint32_t> number{0};     // of the attachment, from 1
  std::atomic<bool> is_for_process{false};  // attached at program start until exit
  // The hooks are installed, but this process is a forked child that records nothing.
  std::atomic<bool> is_left_over{false};
  std::atomic<bool> has_operators{false};  // operators are observed now
  std::atomic<Outputs> outputs{Outputs::kIgnored};
  std::atomic<bool> has_walks{false};             // each step describes the tensors that are new
  std::atomic<bool> has_python{false};            // the Python package finds those tensors
  std::atomic<bool> reports_cuda_tensors{false};  // the CUDA adapter follows their allocations
  std::atomic<const StackSource*> stacks{&kNoStacks};  // a static object
  // Of C++ programs: finds what holds their memory; null: the Python package does so.
  std::atomic<void (*)() noexcept> find_holders{nullptr};
  // Static objects. The first is set during a recording that wants it, the second in those of its
  // steps in which no observer gives the operators.
  std::atomic<const NativeSource*> wanted_native{nullptr};
  std::atomic<const NativeSource*> native{nullptr};
  std::atomic<bool> has_scopes_of_python{false};  // user scopes are seen where Python calls them
};

inline constinit Attachment g_attachment;

inline bool is_attached() { return g_attachment.is_on.load(std::memory_order_relaxed); }
inline const plimsoll_recorder_api& recorder() {
  return *g_attachment.api.load(std::memory_order_acquire);
}
// Load it once for a check and the call: it may change between two loads.
inline const StackSource& stack_source() {
  return *g_attachment.stacks.load(std::memory_order_acquire);
}

// Null while operators are observed.
inline const NativeSource* native_source() {
  return g_attachment.native.load(std::memory_order_acquire);
}

// Number of events in this attachment that lost their layer, line or tensor because memory ran out.
inline std::atomic<std::uint64_t> g_lost_details{0};
inline void count_lost_detail() noexcept {
  const std::uint64_t count = g_lost_details.fetch_add(1, std::memory_order_relaxed) + 1;
  recorder().notice(PLIMSOLL_NOTICE_DETAILS_LOST, kCpu, count, 0);
}

// The listener that shows ranges in another tool's timeline; null: none. Read it while attached.
inline const plimsoll_range_listener* range_listener() {
  return __atomic_load_n(recorder().range_listener, __ATOMIC_ACQUIRE);
}

}  // namespace plimsoll::libtorch
