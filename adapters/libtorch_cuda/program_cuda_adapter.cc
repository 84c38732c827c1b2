// The CUDA adapter of a C++ program, as one translation unit.
#include "cuda_adapter.cc"
#include "program_companion.cc"
