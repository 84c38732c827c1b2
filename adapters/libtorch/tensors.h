// Telling the recorder what a tensor is, and of storages that did not come through our allocator:
// made before the recording, from numpy, in shared memory, from a file.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <mutex>

#include "thread_state.h"

namespace plimsoll::libtorch {

// The tensor's storage, if its memory is recorded: on the CPU, and on CUDA devices while somebody
// follows their allocator. Else null. Never throws.
c10::StorageImpl* recorded_storage(const at::Tensor& tensor);

// The tensor's memory plays this role, that of its parts (tensor_parts.h) where it has none itself.
// Memory that the recorder does not know is adopted.
void tag_tensor(ThreadState& thread, const at::Tensor& tensor, plimsoll_role role,
                std::uint32_t name);

// Its id for the recorder; and the same tag by an id that is known.
std::uint32_t tensor_id(ThreadState& thread, const at::Tensor& tensor, plimsoll_role role,
                        std::uint32_t name);
void tag_storage(ThreadState& thread, const at::Tensor& tensor, std::uint32_t id);
void tag_storage(ThreadState& thread, c10::StorageImpl& storage, std::uint32_t id);

// Its sizes as torch keeps them. Those of a subclass may be the program's code, which hooks never
// run.
c10::IntArrayRef sizes_of(const at::Tensor& tensor);

// The dtype and shape of a module's output.
void tag_output(ThreadState& thread, const at::Tensor& tensor);

// Says that foreign memory has died, if it has. Cheap; to be called at boundaries: steps, root
// modules.
void poll_foreign_storages(ThreadState& thread);
void forget_foreign_storages();
std::mutex& foreign_mutex();  // for fork

c10::weak_intrusive_ptr<c10::StorageImpl> no_storage();
c10::weak_intrusive_ptr<c10::StorageImpl> weak_storage(const at::Tensor& tensor);
bool is_same_storage(const c10::weak_intrusive_ptr<c10::StorageImpl>& known,
                     const at::Tensor& tensor);

}  // namespace plimsoll::libtorch
