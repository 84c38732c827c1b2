// The one place that knows torch's CUDA caching allocator, and what of it differs from version to
// version (torch_allocator.cc). To the others it speaks in allocator_event.h.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator_event.h"
#include "allocator_settings.h"

namespace plimsoll::libtorch_cuda {

// Why the allocator that torch uses now cannot be followed: one sentence, static. Null: it can.
const char* allocator_problem();

// Has torch call cuda_recording() from now on, for ever: torch takes no tracker back. CUDA must be
// initialized; the second and later calls do nothing.
void attach_to_allocator();

// Called on the failing thread after the recording was told, with no lock held.
using OutOfMemoryCallback = void (*)(int device, const Failure& failure);
void set_out_of_memory_callback(OutOfMemoryCallback callback);

// What each device holds now, and what the allocator is set to. Takes the locks of the allocator,
// so: none of its trackers may call.
struct SeenAllocator {
  std::vector<SeenDevice> devices;
  std::vector<SeenSetting> settings;
};
SeenAllocator see_allocator(int device_count);

// What torch itself counts: memory_allocated() and memory_reserved().
struct DeviceTotals {
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
};
DeviceTotals totals_of(int device);

}  // namespace plimsoll::libtorch_cuda
