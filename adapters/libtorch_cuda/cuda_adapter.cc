// The whole CUDA adapter as one translation unit, for C++ programs and for python_cuda_adapter.cc.
#include "allocator_settings.cc"
#include "attach_cuda.cc"
#include "cuda_recording.cc"
#include "device_tracker.cc"
#include "library_workspaces.cc"
#include "shadow_heap.cc"
#include "torch_allocator.cc"
