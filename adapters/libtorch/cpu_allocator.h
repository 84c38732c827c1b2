// torch's CPU allocator with every block recorded. What torch had stays below and does the work.
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
