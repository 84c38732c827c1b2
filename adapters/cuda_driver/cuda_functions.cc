// The wrappers of physical memory and its mappings.
#include "cuda_functions.h"

#include <vector>

namespace plimsoll::cuda_driver {
namespace {

constexpr int kOnDevice = 1;  // CU_MEM_LOCATION_TYPE_DEVICE

Place place_of(const AllocationProperties* properties) {
  return properties == nullptr || properties->location_type == kOnDevice ? Place::kDevice
                                                                         : Place::kPinnedHost;
}

// If there is no memory to store an allocation, it is not reported; the program continues.
template <typename Do>
void try_to(Do&& act) noexcept {
  const KeptErrno kept;
  try {
    act();
  } catch (...) {
  }
}

}  // namespace

int MemCreate::call(Type* real, Handle* handle, std::size_t size,
                    const AllocationProperties* properties, unsigned long long flags) {
  const Nesting nesting;
  const int result = real(handle, size, properties, flags);
  if (!nesting.is_outermost()) return result;
  const Place place = place_of(properties);
  if (result == kSuccess && size > 0) {
    try_to([&] {
      if (!begin_reporting()) return;
      const int ordinal =
          properties != nullptr && place == Place::kDevice ? properties->location : 0;
      physical_memory().created(*handle, describe("cuMemCreate", place, ordinal, size));
    });
  } else if (result == kOutOfMemory) {
    try_to([&] {
      if (begin_reporting()) report_out_of_memory("cuMemCreate", place, size);
    });
  }
  return result;
}

int MemRelease::call(Type* real, Handle handle) {
  const Nesting nesting;
  if (!nesting.is_outermost()) return real(handle);
  PhysicalMemory::MemoryRef memory;
  try_to([&] { memory = physical_memory().release(handle); });
  const int result = real(handle);
  if (memory != nullptr && result != kSuccess && result != kDeinitialized) {
    try_to([&] { physical_memory().undo_release(handle, memory); });
  }
  return result;
}

int MemRetainAllocationHandle::call(Type* real, Handle* handle, void* address) {
  const Nesting nesting;
  const int result = real(handle, address);
  if (nesting.is_outermost() && result == kSuccess) {
    try_to([&] { physical_memory().retained(*handle, number_of(address)); });
  }
  return result;
}

int MemMap::call(Type* real, DevicePointer address, std::size_t size, std::size_t offset,
                 Handle handle, unsigned long long flags) {
  const Nesting nesting;
  const int result = real(address, size, offset, handle, flags);
  if (nesting.is_outermost() && result == kSuccess) {
    try_to([&] { physical_memory().mapped(handle, address, size); });
  }
  return result;
}

int MemUnmap::call(Type* real, DevicePointer address, std::size_t size) {
  const Nesting nesting;
  if (!nesting.is_outermost()) return real(address, size);
  std::vector<PhysicalMemory::Mapping> mappings;
  try_to([&] { mappings = physical_memory().unmap(address, size); });
  const int result = real(address, size);
  if (result != kSuccess && result != kDeinitialized) {
    try_to([&] { physical_memory().undo_unmap(mappings); });
  }
  return result;
}

}  // namespace plimsoll::cuda_driver
