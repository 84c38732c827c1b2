// What is attached: the recorder's interface and the chosen mode, for all hooks to read.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>

#include "plimsoll/recorder_c.h"

namespace plimsoll::libtorch {

struct ThreadState;

inline constexpr std::uint8_t kCpu = 0;  // the recorder's number of the CPU

// Python stacks, if there is a Python in this program.
struct StackSource {
  // This thread's stack now, as an id; 0 where there is none. Needs no GIL.
  std::uint32_t (*capture)(ThreadState& thread) = nullptr;
  // The same of Python code that an autograd node runs: its frames, called by those of the forward.
  std::uint32_t (*capture_in_node)(ThreadState& thread) = nullptr;
  // Where this thread's Python keeps a pointer that differs while code called from C++ runs; null:
  // this thread has no Python. Valid while its Python frames stand.
  const void* const* (*position)() = nullptr;
  // Tells the recorder the stacks this thread met for the first time. Takes the GIL.
  void (*define)(ThreadState& thread) = nullptr;
};

// An object that is never destroyed, and that needs no memory to be made.
template <typename T>
class Immortal {
 public:
  Immortal() { ::new (static_cast<void*>(bytes_)) T; }
  T& get() { return *std::launder(reinterpret_cast<T*>(bytes_)); }

 private:
  alignas(T) unsigned char bytes_[sizeof(T)];
};

struct Attachment {
  const plimsoll_recorder_api* api = nullptr;  // set once, before is_on
  std::atomic<bool> is_on{false};
  std::uint32_t number = 0;     // of the attachment, from 1; written while nothing is attached
  bool is_for_process = false;  // attached at the program's start: stays until its end
  // In the child of a fork that records nothing: the hooks are there.
  std::atomic<bool> is_left_over{false};
  std::atomic<bool> has_operators{false};  // operators are observed now
  bool has_outputs = false;  // written while operators are not observed: outputs are described
  std::atomic<bool> has_walks{false};           // each step describes the tensors that are new
  std::atomic<bool> tells_cuda_tensors{false};  // the CUDA adapter follows their allocations
  StackSource stacks;  // written while operators are not observed; null functions: no stacks
};

inline Attachment g_attachment;

inline bool is_attached() { return g_attachment.is_on.load(std::memory_order_relaxed); }
inline const plimsoll_recorder_api& recorder() { return *g_attachment.api; }

// What was dropped for want of memory, in this attachment: an event lacks its layer, line or
// tensor.
inline std::atomic<std::uint64_t> g_lost_details{0};
inline void count_lost_detail() noexcept {
  const std::uint64_t count = g_lost_details.fetch_add(1, std::memory_order_relaxed) + 1;
  recorder().notice(PLIMSOLL_NOTICE_DETAILS_LOST, kCpu, count, 0);
}

// Who shows ranges in another tool's timeline; null: nobody. To be asked while attached.
inline const plimsoll_range_listener* range_listener() {
  return __atomic_load_n(g_attachment.api->range_listener, __ATOMIC_ACQUIRE);
}

}  // namespace plimsoll::libtorch
