// Shared libraries with the call chains of torch, for library_workspaces_test.cc.
#pragma once

#include <cstddef>

namespace fake {

inline constexpr std::size_t kCublasBytes = 33'554'432;
inline constexpr std::size_t kCublasLtBytes = 1'048'576;

using Tracker = void (*)(std::size_t bytes);
using Kernel = void (*)(std::size_t bytes);

__attribute__((visibility("default"))) void set_tracker(Tracker tracker);
__attribute__((visibility("default"))) const void* address_in_allocator();
__attribute__((visibility("default"))) void allocate(std::size_t bytes);
__attribute__((visibility("default"))) void raw_allocate(std::size_t bytes);
__attribute__((visibility("default"))) Kernel backward_kernel();

}  // namespace fake

namespace at::cuda {
void* getCurrentCUDABlasHandle();
void* getCUDABlasLtWorkspace();
}  // namespace at::cuda

namespace at::native {
void cudnn_convolution(std::size_t bytes);
void convolution_backward(std::size_t bytes);
void sum(std::size_t bytes);
void resize_bytes_cuda(std::size_t bytes);
}  // namespace at::native
