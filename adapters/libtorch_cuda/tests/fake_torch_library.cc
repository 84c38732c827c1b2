// Replaces libtorch_cuda.so: functions that take memory for a library, with the names and the
// visibility that they have in torch, and one that takes memory for a kernel of torch's own.
#include <cstddef>

#include "fake_libraries.h"

#define EXPORTED __attribute__((visibility("default")))

namespace at::cuda {
namespace {

[[gnu::noinline]] void get_new_workspace() {
  fake::allocate(fake::kCublasBytes);
  asm volatile("");
}
[[gnu::noinline]] void get_new_lt_workspace() {
  fake::allocate(fake::kCublasLtBytes);
  asm volatile("");
}

}  // namespace

EXPORTED void* getCurrentCUDABlasHandle() {
  get_new_workspace();
  asm volatile("");
  return nullptr;
}
EXPORTED void* getCUDABlasLtWorkspace() {
  get_new_lt_workspace();
  asm volatile("");
  return nullptr;
}

}  // namespace at::cuda

namespace at::native {
namespace {

[[gnu::noinline]] void run_conv_plan(std::size_t bytes) {
  fake::raw_allocate(bytes);
  asm volatile("");
}
[[gnu::noinline]] void reduce(std::size_t bytes) {
  fake::allocate(bytes);
  asm volatile("");
}

}  // namespace

EXPORTED void cudnn_convolution(std::size_t bytes) {
  run_conv_plan(bytes);
  asm volatile("");
}
EXPORTED void sum(std::size_t bytes) {
  reduce(bytes);
  asm volatile("");
}
EXPORTED void resize_bytes_cuda(std::size_t bytes) {
  fake::allocate(bytes);
  asm volatile("");
}

}  // namespace at::native

namespace fake {
namespace {

void cudnn_convolution_backward(std::size_t bytes) {
  at::native::run_conv_plan(bytes);
  asm volatile("");
}

}  // namespace

EXPORTED Kernel backward_kernel() { return &cudnn_convolution_backward; }

}  // namespace fake
