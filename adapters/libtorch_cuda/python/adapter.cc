// The CUDA adapter with its Python module, as one translation unit.
#include <Python.h>

#include "cuda_adapter.cc"
#include "python/module.cc"
