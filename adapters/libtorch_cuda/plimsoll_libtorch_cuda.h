// The entry points of the CUDA adapter for a C++ program, next to those of plimsoll_libtorch.h.
#pragma once

#include <cstdint>

#include "plimsoll/recorder_c.h"

extern "C" {

// Records torch's caching allocator on the first `device_count` devices, starting with the live
// blocks. CUDA must be initialized. `describe` is the CPU adapter's
// plimsoll_libtorch_describe_allocation; if it is null, allocations have only the recorder's
// context. Returns null, or one sentence with the reason for a failure.
const char* plimsoll_libtorch_cuda_attach(const plimsoll_recorder_api* api, int device_count,
                                          plimsoll_context* (*describe)(plimsoll_context*));

// Compares devices whose block sizes are in doubt with a new snapshot. Returns the number of such
// devices. Cheap if there are none.
int plimsoll_libtorch_cuda_renew(void);

// Returns the first device whose sums differ from the allocator's, or -1.
int plimsoll_libtorch_cuda_differs(void);

// Reports the allocator's settings again: a program may change them while it runs.
void plimsoll_libtorch_cuda_report_settings(void);

// Stops recording. torch retains the callbacks, which then do nothing.
void plimsoll_libtorch_cuda_detach(void);
}
