// The adapter of a C++ program, as one translation unit.
//
// torch's libraries are compiled with NDEBUG, and without it at::RecordFunction refuses to show the
// inputs that they put there.
#ifndef NDEBUG
#define NDEBUG
#endif

#include "adapter_sources.cc"
#include "program_start.cc"
