// A shared library that allocates CUDA memory: the report must name it.
#include "fake_runtime.h"

extern "C" int asking_library_workspace(void** address, size_t size) {
  return cudaMalloc(address, size);
}
