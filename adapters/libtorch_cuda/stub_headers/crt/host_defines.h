// Replaces the file of this name for CUDA headers packaged without their folder crt/ (the packages
// that torch's wheels for CUDA 13 depend on). A host compiler needs only these macros to read the
// runtime's headers. This folder is searched last.
#pragma once

#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __cudart_builtin__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __annotate__(a) __attribute__((a))
#define __location__(a) __annotate__(a)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __forceinline__ __inline__ __attribute__((always_inline))
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDA_CB
