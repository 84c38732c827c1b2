// What a program gets when it looks up a CUDA function by dlsym(), the driver's cuGetProcAddress()
// or the dynamic linker, which finds this library's exports. Each address of a real function gets
// its own wrapper, because a process may have several CUDA runtimes. Functions that CUDA does not
// have are not found, as without us.
#pragma once

namespace plimsoll::cuda_driver {

using RealDlsym = void* (*)(void* handle, const char* name);
RealDlsym real_dlsym();

// For dlsym() of a name that begins with "cu". False: the real dlsym() must answer, with the
// caller's return address.
bool answer_lookup(void* handle, const char* name, void* caller, void*& address);

// A wrapper of `real`, or `real` itself if the function is unknown. `version` is the one requested
// from cuGetProcAddress(): it decides which version a base name means.
void* wrapper_of_driver_function(const char* base_name, int version, void* real);

// The real function behind one of our exports, as the code at `caller` would have found it. Null if
// there is none.
void* real_behind_export(const char* symbol, void* caller);

// Whether that code belongs to this library.
bool is_our_code(const void* address);

}  // namespace plimsoll::cuda_driver
