/* The part of CUDA's runtime that the tests call. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
struct Pitched {
  void* address;
  size_t pitch, width, height;
};
struct Extents {
  size_t width, height, depth;
};
int cudaSetDevice(int device);
int cudaDeviceReset(void);
int cudaMalloc(void** address, size_t size);
int cudaMallocManaged(void** address, size_t size, unsigned flags);
int cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height);
int cudaMalloc3D(struct Pitched* memory, struct Extents extents);
int cudaMallocAsync(void** address, size_t size, void* stream);
int cudaMallocAsync_ptsz(void** address, size_t size, void* stream);
int cudaMallocFromPoolAsync(void** address, size_t size, void* pool, void* stream);
int cudaFree(void* address);
int cudaFreeAsync(void* address, void* stream);
int cudaMallocHost(void** address, size_t size);
int cudaHostAlloc(void** address, size_t size, unsigned flags);
int cudaFreeHost(void* address);
#ifdef __cplusplus
}
#endif
