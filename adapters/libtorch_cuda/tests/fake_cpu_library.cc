// Replaces libtorch_cpu.so: operators whose kernels are in libtorch_cuda.so.
#include "fake_libraries.h"

namespace at::native {

__attribute__((visibility("default"))) void convolution_backward(std::size_t bytes) {
  fake::backward_kernel()(bytes);
  asm volatile("");
}

}  // namespace at::native
