// torch's CPU allocator with every block recorded. What torch had stays below and does the work.
//
// SetAllocator() alone would miss what asks torch's default allocator by its address:
// torch.UntypedStorage(n), and so copy.deepcopy() of tensors and what old files are loaded into,
// and storages from before us that grow. The default allocator is one static object without
// members, so its table of virtual functions is all of it: ours is put in its place, and taken out
// again. Where torch has another allocator than its default one, ours is set in front of that.
#pragma once

#include <c10/core/Allocator.h>

namespace plimsoll::libtorch {

// Puts ours in front, or takes it out again: then torch has what it had.
void install_cpu_allocator();
void remove_cpu_allocator();

// The deleter of blocks that torch's own allocator gave, and the one we put in its place.
c10::DeleterFnPtr base_deleter();
void recorded_delete(void* data);

// The allocator that torch had, and ours; for storages that remember theirs.
c10::Allocator* base_allocator();
c10::Allocator* recording_allocator();

}  // namespace plimsoll::libtorch
