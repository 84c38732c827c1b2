// A CUDA runtime for tests. It finds the driver as NVIDIA's runtime does, whether shared or linked
// into the program: dlopen, dlsym of cuGetProcAddress_v2, and everything else from there.
#include "fake_runtime.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

using GetProcAddress = int(const char*, void**, int, std::uint64_t, int*);

void* driver() {
  static void* const handle = dlopen("libcuda.so.1", RTLD_NOW);
  if (handle == nullptr) {
    std::fprintf(stderr, "no driver: %s\n", dlerror());
    std::exit(9);
  }
  return handle;
}

template <typename Function>
Function* find(const char* name, std::uint64_t flags = 1) {
  static auto* const get =
      reinterpret_cast<GetProcAddress*>(dlsym(driver(), "cuGetProcAddress_v2"));
  void* function = nullptr;
  int status = 0;
  if (get(name, &function, 12000, flags, &status) != 0) std::exit(8);
  return reinterpret_cast<Function*>(function);
}

std::uint64_t number(void* address) { return reinterpret_cast<std::uint64_t>(address); }
std::uint64_t* out(void** address) { return reinterpret_cast<std::uint64_t*>(address); }

}  // namespace

extern "C" {

int cudaSetDevice(int device) {
  static auto* const set = reinterpret_cast<void (*)(int)>(dlsym(driver(), "fake_set_device"));
  set(device);
  return 0;
}
int cudaDeviceReset() {
  int device = 0;
  find<int(int*)>("cuCtxGetDevice")(&device);
  return find<int(int)>("cuDevicePrimaryCtxReset")(device);
}
int cudaMalloc(void** address, size_t size) {
  static auto* const take = find<int(std::uint64_t*, size_t)>("cuMemAlloc");
  return take(out(address), size);
}
int cudaMallocManaged(void** address, size_t size, unsigned flags) {
  return find<int(std::uint64_t*, size_t, unsigned)>("cuMemAllocManaged")(out(address), size,
                                                                          flags);
}
int cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height) {
  return find<int(std::uint64_t*, size_t*, size_t, size_t, unsigned)>("cuMemAllocPitch")(
      out(address), pitch, width, height, 4);
}
int cudaMalloc3D(Pitched* memory, Extents extents) {
  memory->width = extents.width;
  memory->height = extents.height;
  return cudaMallocPitch(&memory->address, &memory->pitch, extents.width,
                         extents.height * extents.depth);
}
int cudaMallocAsync(void** address, size_t size, void* stream) {
  return find<int(std::uint64_t*, size_t, void*)>("cuMemAllocAsync")(out(address), size, stream);
}
int cudaMallocAsync_ptsz(void** address, size_t size, void* stream) {
  return find<int(std::uint64_t*, size_t, void*)>("cuMemAllocAsync", 2)(out(address), size, stream);
}
int cudaMallocFromPoolAsync(void** address, size_t size, void* pool, void* stream) {
  return find<int(std::uint64_t*, size_t, void*, void*)>("cuMemAllocFromPoolAsync")(
      out(address), size, pool, stream);
}
int cudaFree(void* address) {
  static auto* const give = find<int(std::uint64_t)>("cuMemFree");
  return give(number(address));
}
int cudaFreeAsync(void* address, void* stream) {
  return find<int(std::uint64_t, void*)>("cuMemFreeAsync")(number(address), stream);
}
int cudaMallocHost(void** address, size_t size) {
  return find<int(void**, size_t)>("cuMemAllocHost")(address, size);
}
int cudaHostAlloc(void** address, size_t size, unsigned flags) {
  return find<int(void**, size_t, unsigned)>("cuMemHostAlloc")(address, size, flags);
}
int cudaFreeHost(void* address) { return find<int(void*)>("cuMemFreeHost")(address); }
}
