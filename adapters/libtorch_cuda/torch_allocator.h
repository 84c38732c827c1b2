// The one place that knows torch's CUDA caching allocator, and what of it differs from version to
// version (torch_allocator.cc). To the others it speaks in allocator_event.h.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator_event.h"

namespace plimsoll::libtorch_cuda {

// Why the allocator that torch uses now cannot be followed: one sentence, static. Null: it can.
const char* allocator_problem();

// Has torch call cuda_recording() from now on, for ever: torch takes no tracker back. CUDA must be
// initialised; the second and later calls do nothing.
void attach_to_allocator();

// Called on the failing thread after the recording was told, with no lock held.
using OutOfMemoryCallback = void (*)(int device, std::uint64_t requested_bytes,
                                     std::uint64_t free_bytes, std::uint64_t limit_bytes);
void set_out_of_memory_callback(OutOfMemoryCallback callback);

// What each device holds now. Takes the locks of the allocator, so: none of its trackers may call.
std::vector<SeenDevice> see_devices(int device_count);

// What torch itself counts: memory_allocated() and memory_reserved().
struct DeviceTotals {
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
};
DeviceTotals totals_of(int device);

}  // namespace plimsoll::libtorch_cuda
