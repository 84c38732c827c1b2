// The only file that depends on torch's CUDA caching allocator and its differences between versions
// (torch_allocator.cc). Its interface is allocator_event.h.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator_event.h"
#include "allocator_settings.h"

namespace plimsoll::libtorch_cuda {

// Returns one static sentence on why torch's current allocator cannot be followed; null if it can.
const char* allocator_problem();

// Makes torch call cuda_recording() from now on. This is permanent, because torch cannot remove a
// tracker. CUDA must be initialized. Later calls do nothing.
void attach_to_allocator();

// Called on the failing thread after the failure was recorded, with no lock taken.
using OutOfMemoryCallback = void (*)(int device, const Failure& failure);
void set_out_of_memory_callback(OutOfMemoryCallback callback);

// The current state of each device, and the allocator's settings. Takes the allocator's locks, so
// its trackers must not call this.
struct SeenAllocator {
  std::vector<SeenDevice> devices;
  std::vector<SeenSetting> settings;
};
SeenAllocator see_allocator(int device_count);

// torch's own sums: memory_allocated() and memory_reserved().
struct DeviceTotals {
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
};
DeviceTotals totals_of(int device);

}  // namespace plimsoll::libtorch_cuda
