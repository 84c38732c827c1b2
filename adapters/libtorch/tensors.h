// Reports to the recorder what each tensor is. Also reports storages that did not come from our
// allocator: created before the recording, or borrowed from others (from numpy, in shared memory,
// from a file).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <mutex>

#include "thread_state.h"

namespace plimsoll::libtorch {

// Returns the tensor's storage if its memory is recorded: on the CPU, and on CUDA devices while
// their allocations are recorded. Else returns null. Never throws.
c10::StorageImpl* recorded_storage(const at::Tensor& tensor);

// Whether the tensor's memory is borrowed from others; is_new_borrowed(): and not recorded yet.
bool is_borrowed(const at::Tensor& tensor);
bool is_new_borrowed(const at::Tensor& tensor);

// Tags the tensor's memory with this role, or its parts' memory (tensor_parts.h) if it has none
// itself. Memory unknown to the recorder is adopted. If it is borrowed, an input is recorded as an
// allocation of the line that receives it.
void tag_tensor(ThreadState& thread, const at::Tensor& tensor, plimsoll_role role,
                std::uint32_t name);

// tensor_id() returns the tensor's id in the recorder; tag_storage() tags its memory with a known
// id.
std::uint32_t tensor_id(ThreadState& thread, const at::Tensor& tensor, plimsoll_role role,
                        std::uint32_t name);
void tag_storage(ThreadState& thread, const at::Tensor& tensor, std::uint32_t id);
void tag_storage(ThreadState& thread, c10::StorageImpl& storage, std::uint32_t id);

// The sizes as torch stores them. A subclass's size() may be the program's code, which hooks never
// run.
c10::IntArrayRef sizes_of(const at::Tensor& tensor);

// Records the dtype and shape of a module's output.
void tag_output(ThreadState& thread, const at::Tensor& tensor);
// The same, if its memory is one of the thread's new blocks. The tensors inside a wrapper are
// results of their own operators.
void tag_new_output(ThreadState& thread, const at::Tensor& tensor);

// Reports the frees of foreign storages that have been destroyed. Cheap; call it at boundaries,
// such as steps and calls of root modules.
void poll_foreign_storages(ThreadState& thread);
void forget_foreign_storages();
std::mutex& foreign_mutex();  // for fork

c10::weak_intrusive_ptr<c10::StorageImpl> no_storage();
c10::weak_intrusive_ptr<c10::StorageImpl> weak_storage(const at::Tensor& tensor);
bool is_same_storage(const c10::weak_intrusive_ptr<c10::StorageImpl>& known,
                     const at::Tensor& tensor);

}  // namespace plimsoll::libtorch
