// Last uses: reports to the recorder which memory each operator uses, in the steps that are
// observed.
//
// A use is an argument of a dispatched operator, also of a nested one. An operator that only makes
// a view, or reads only sizes and dtypes, uses no memory. Steps begin and end on one thread at a
// time; operators may run on any.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <cstdint>

#include "plimsoll_libtorch.h"
#include "thread_state.h"

namespace plimsoll::libtorch {

// "auto", "always", "sampled" or "never".
const char* uses_text(plimsoll_libtorch_uses mode);

inline std::atomic<bool> g_observes_uses{false};

inline bool observes_uses() { return g_observes_uses.load(std::memory_order_relaxed); }

// Begins with a new recording, or with one that asks for another mode. Operators are observed.
void begin_uses(plimsoll_libtorch_uses mode) noexcept;
void renew_uses() noexcept;  // in the same mode
void stop_uses() noexcept;
// A step of the training loop has ended: decides whether the next one is observed.
void end_use_step() noexcept;
// Whether some steps of this attachment are observed.
bool wants_uses();

// The address of a tensor's memory; null if it has none. `tensor` has a storage. Never copies
// memory that is copied on write.
inline void* memory_of(const c10::TensorImpl& tensor) {
  return tensor.unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
}

// At the start of an operator. `name` is the thread's cached name of it.
void report_uses(ThreadState& thread, const at::RecordFunction& record, Name& name);

}  // namespace plimsoll::libtorch
