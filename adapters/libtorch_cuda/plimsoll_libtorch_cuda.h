// The entry points of the CUDA adapter for a C++ program, next to those of plimsoll_libtorch.h.
#pragma once

#include <cstdint>

#include "plimsoll/recorder_c.h"

extern "C" {

// Records torch's caching allocator on the first `device_count` devices, with what lives there
// already. CUDA must be initialized. `describe`: plimsoll_libtorch_describe_allocation of the CPU
// half; null: allocations carry what is in the recorder's context alone. Returns null, or one
// sentence that says why it could not.
const char* plimsoll_libtorch_cuda_attach(const plimsoll_recorder_api* api, int device_count,
                                          plimsoll_context* (*describe)(plimsoll_context*));

// Compares with a snapshot, anew, the devices on which the sizes of blocks are in doubt. Returns
// how many there were. Cheap where there is none.
int plimsoll_libtorch_cuda_renew(void);

// The first device whose sums are not the allocator's own; -1: they all are.
int plimsoll_libtorch_cuda_differs(void);

// Tells the allocator's settings anew: a program may change them while it runs.
void plimsoll_libtorch_cuda_tell_settings(void);

// Nothing is recorded any more. What torch calls stays where it is, and does nothing.
void plimsoll_libtorch_cuda_detach(void);
}
