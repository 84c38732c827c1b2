// The wrapped CUDA functions: their parameters, from NVIDIA's public documentation, and the effect
// of a call. Declared by hand, so that building this library needs no CUDA header.
//
// Each has a Type and a call() that wraps the real function. Functions whose names end in _ptsz
// (the stream of the calling thread instead of the default one) have the same types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "around_calls.h"
#include "lookup.h"

namespace plimsoll::cuda_driver {

using DevicePointer = std::uint64_t;  // CUdeviceptr
using Handle = std::uint64_t;         // CUmemGenericAllocationHandle
using Stream = void*;
using Pool = void*;

inline std::uint64_t number_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// Functions that differ only in their names share a type; `kName` is the operator's name.
template <const char* kName, typename Address, Place kPlace = Place::kDevice>
struct AllocOf {  // (address*, size)
  using Type = int(Address*, std::size_t);
  static int call(Type* real, Address* address, std::size_t size) {
    return around_alloc(
        {kName, kPlace, size}, [&] { return real(address, size); },
        [&] { return Taken{(std::uint64_t)*address, size}; });
  }
};

template <const char* kName, typename Address, Place kPlace = Place::kDevice>
struct AllocWithFlagsOf {  // (address*, size, flags)
  using Type = int(Address*, std::size_t, unsigned);
  static int call(Type* real, Address* address, std::size_t size, unsigned flags) {
    return around_alloc(
        {kName, kPlace, size}, [&] { return real(address, size, flags); },
        [&] { return Taken{(std::uint64_t)*address, size}; });
  }
};

template <const char* kName, typename Address>
struct AllocAsyncOf {
  using Type = int(Address*, std::size_t, Stream);
  static int call(Type* real, Address* address, std::size_t size, Stream stream) {
    return around_alloc(
        {kName, Place::kDevice, size, Request::Kind::kPooled},
        [&] { return real(address, size, stream); },
        [&] { return Taken{(std::uint64_t)*address, size}; });
  }
};

template <const char* kName, typename Address>
struct AllocFromPoolOf {
  using Type = int(Address*, std::size_t, Pool, Stream);
  static int call(Type* real, Address* address, std::size_t size, Pool pool, Stream stream) {
    return around_alloc(
        {kName, Place::kDevice, size, Request::Kind::kPooled},
        [&] { return real(address, size, pool, stream); },
        [&] { return Taken{(std::uint64_t)*address, size}; });
  }
};

template <typename Address>
struct FreeOf {
  using Type = int(Address);
  static int call(Type* real, Address address) {
    return around_free((std::uint64_t)address, [&] { return real(address); });
  }
};

template <typename Address>
struct FreeAsyncOf {
  using Type = int(Address, Stream);
  static int call(Type* real, Address address, Stream stream) {
    return around_free((std::uint64_t)address, [&] { return real(address, stream); });
  }
};

namespace names {
inline constexpr char kMemAlloc[] = "cuMemAlloc";
inline constexpr char kMemAllocManaged[] = "cuMemAllocManaged";
inline constexpr char kMemAllocAsync[] = "cuMemAllocAsync";
inline constexpr char kMemAllocFromPoolAsync[] = "cuMemAllocFromPoolAsync";
inline constexpr char kMemAllocHost[] = "cuMemAllocHost";
inline constexpr char kMemHostAlloc[] = "cuMemHostAlloc";
inline constexpr char kMalloc[] = "cudaMalloc";
inline constexpr char kMallocManaged[] = "cudaMallocManaged";
inline constexpr char kMallocAsync[] = "cudaMallocAsync";
inline constexpr char kMallocFromPoolAsync[] = "cudaMallocFromPoolAsync";
inline constexpr char kMallocHost[] = "cudaMallocHost";
inline constexpr char kHostAlloc[] = "cudaHostAlloc";
}  // namespace names

// ---- the driver -------------------------------------------------------------------------------

using MemAlloc = AllocOf<names::kMemAlloc, DevicePointer>;
using MemAllocManaged = AllocWithFlagsOf<names::kMemAllocManaged, DevicePointer>;
using MemAllocAsync = AllocAsyncOf<names::kMemAllocAsync, DevicePointer>;
using MemAllocFromPoolAsync = AllocFromPoolOf<names::kMemAllocFromPoolAsync, DevicePointer>;
using MemAllocHost = AllocOf<names::kMemAllocHost, void*, Place::kPinnedHost>;
using MemHostAlloc = AllocWithFlagsOf<names::kMemHostAlloc, void*, Place::kPinnedHost>;
using MemFree = FreeOf<DevicePointer>;
using MemFreeAsync = FreeAsyncOf<DevicePointer>;
using MemFreeHost = FreeOf<void*>;

struct MemAllocPitch {
  using Type = int(DevicePointer*, std::size_t*, std::size_t, std::size_t, unsigned);
  static int call(Type* real, DevicePointer* address, std::size_t* pitch, std::size_t width,
                  std::size_t height, unsigned element) {
    return around_alloc(
        {"cuMemAllocPitch", Place::kDevice, width * height},
        [&] { return real(address, pitch, width, height, element); },
        [&] { return Taken{*address, *pitch * height}; });
  }
};

// The beginning of CUmemAllocationProp: which memory, and where.
struct AllocationProperties {
  std::int32_t type;
  std::int32_t handle_types;
  std::int32_t location_type;  // 1: a device, whose ordinal follows; 2, 3, 4: the host
  std::int32_t location;
};

struct MemCreate {
  using Type = int(Handle*, std::size_t, const AllocationProperties*, unsigned long long);
  static int call(Type* real, Handle* handle, std::size_t size,
                  const AllocationProperties* properties, unsigned long long flags);
};
struct MemRelease {
  using Type = int(Handle);
  static int call(Type* real, Handle handle);
};
struct MemRetainAllocationHandle {
  using Type = int(Handle*, void*);
  static int call(Type* real, Handle* handle, void* address);
};
struct MemMap {
  using Type = int(DevicePointer, std::size_t, std::size_t, Handle, unsigned long long);
  static int call(Type* real, DevicePointer address, std::size_t size, std::size_t offset,
                  Handle handle, unsigned long long flags);
};
struct MemUnmap {
  using Type = int(DevicePointer, std::size_t);
  static int call(Type* real, DevicePointer address, std::size_t size);
};

struct DevicePrimaryCtxReset {
  using Type = int(int);
  static int call(Type* real, int ordinal) {
    return around_reset(ordinal, [&] { return real(ordinal); });
  }
};

// Functions that the driver returns are wrapped too. The first version of this function has no
// `status`, and which version a driver returns depends on the driver. The argument is therefore
// passed on unread: the supported calling conventions ignore an extra argument.
struct GetProcAddress {
  using Type = int(const char*, void**, int, std::uint64_t, int*);
  static int call(Type* real, const char* symbol, void** function, int version, std::uint64_t flags,
                  int* status) {
    const int result = real(symbol, function, version, flags, status);
    if (result == kSuccess && symbol != nullptr && function != nullptr && *function != nullptr) {
      *function = wrapper_of_driver_function(symbol, version, *function);
    }
    return result;
  }
};

// ---- the runtime ------------------------------------------------------------------------------

using Malloc = AllocOf<names::kMalloc, void*>;
using MallocManaged = AllocWithFlagsOf<names::kMallocManaged, void*>;
using MallocAsync = AllocAsyncOf<names::kMallocAsync, void*>;
using MallocFromPoolAsync = AllocFromPoolOf<names::kMallocFromPoolAsync, void*>;
using MallocHost = AllocOf<names::kMallocHost, void*, Place::kPinnedHost>;
using HostAlloc = AllocWithFlagsOf<names::kHostAlloc, void*, Place::kPinnedHost>;
using Free = FreeOf<void*>;
using FreeAsync = FreeAsyncOf<void*>;
using FreeHost = FreeOf<void*>;

struct MallocPitch {
  using Type = int(void**, std::size_t*, std::size_t, std::size_t);
  static int call(Type* real, void** address, std::size_t* pitch, std::size_t width,
                  std::size_t height) {
    return around_alloc(
        {"cudaMallocPitch", Place::kDevice, width * height},
        [&] { return real(address, pitch, width, height); },
        [&] { return Taken{number_of(*address), *pitch * height}; });
  }
};

struct PitchedPointer {  // cudaPitchedPtr
  void* address;
  std::size_t pitch;
  std::size_t width;
  std::size_t height;
};
struct Extent {  // cudaExtent
  std::size_t width;
  std::size_t height;
  std::size_t depth;
};
struct Malloc3D {
  using Type = int(PitchedPointer*, Extent);
  static int call(Type* real, PitchedPointer* memory, Extent extent) {
    return around_alloc(
        {"cudaMalloc3D", Place::kDevice, extent.width * extent.height * extent.depth},
        [&] { return real(memory, extent); },
        [&] {
          return Taken{number_of(memory->address), memory->pitch * extent.height * extent.depth};
        });
  }
};

struct DeviceReset {
  using Type = int();
  static int call(Type* real) {
    return around_reset(current_device(), [&] { return real(); });
  }
};

}  // namespace plimsoll::cuda_driver
