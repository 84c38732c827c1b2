// Answers a program's lookups of CUDA functions: by dlsym(), by the driver's cuGetProcAddress() or
// by the dynamic linker, which finds this library's exports. Each address of a real function gets
// its own wrapper, because a process may have several CUDA runtimes. Functions that CUDA lacks are
// not found, as without this library.
#pragma once

namespace plimsoll::cuda_driver {

using RealDlsym = void* (*)(void* handle, const char* name);
RealDlsym real_dlsym();

// Answers dlsym() for a name that begins with "cu". Returns false if the real dlsym() must answer,
// with the caller's return address.
bool answer_lookup(void* handle, const char* name, void* caller, void*& address);

// A wrapper of `real`, or `real` itself if the function is unknown. `version` is the version
// requested from cuGetProcAddress(); it decides which version of a function a base name means.
void* wrapper_of_driver_function(const char* base_name, int version, void* real);

// The real function behind one of our exports, as the code at `caller` would have found it. Null if
// there is none.
void* real_behind_export(const char* symbol, void* caller);

// Whether the code at an address belongs to this library.
bool is_our_code(const void* address);

}  // namespace plimsoll::cuda_driver
