// The adapter of a C++ program, as one translation unit.
//
// torch's libraries are compiled with NDEBUG. Without it, at::RecordFunction asserts when the
// operator inputs stored by those libraries are read.
#ifndef NDEBUG
#define NDEBUG
#endif

#include "adapter_sources.cc"
#include "cpp_heap.cc"
#include "cpp_holders.cc"
#include "cpp_types.cc"
#include "cpp_walk.cc"
#include "program_optimizers.cc"
#include "program_stacks.cc"
#include "program_start.cc"
