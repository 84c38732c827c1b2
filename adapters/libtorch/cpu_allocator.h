// Records every block of torch's CPU allocator. The original allocator still does the work.
//
// SetAllocator() alone would miss code that uses torch's default allocator by its address:
// torch.UntypedStorage(n), and thus copy.deepcopy() of tensors and the loading of old files, and
// older storages that grow. The default allocator is a static object whose only state is its vtable
// pointer: that pointer is replaced, and restored later. If the program has set another allocator,
// ours is set in front of it.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace plimsoll::libtorch {

// Install our allocator, and restore the original one. Installing returns false if the program has
// replaced torch's allocator too often.
bool install_cpu_allocator();
void remove_cpu_allocator();

// The deleter of the original allocator's blocks, and the one that replaces it. Blocks of earlier
// recordings may have the recorded deleter of another allocator.
c10::DeleterFnPtr base_deleter();
c10::DeleterFnPtr recorded_deleter();
bool is_recorded_deleter(c10::DeleterFnPtr deleter);

// Records memory of the CPU that this thread has just obtained, from any allocator. `base`:
// PLIMSOLL_STACK_BASE of the hook.
void record_allocation(void* data, std::size_t size_bytes, const char* base) noexcept;

// The original allocator and ours, for storages that keep a pointer to theirs.
c10::Allocator* base_allocator();
c10::Allocator* recording_allocator();

}  // namespace plimsoll::libtorch
