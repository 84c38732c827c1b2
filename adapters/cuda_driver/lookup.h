// What a program gets when it looks a function of CUDA up, whichever way: dlsym(), the driver's
// cuGetProcAddress(), or the dynamic linker, which finds the functions that this library exports.
// Each address of a real function gets a wrapper of its own, because a process may hold several
// CUDA runtimes. What CUDA does not have is not found, as without us.
#pragma once

namespace plimsoll::cuda_driver {

using RealDlsym = void* (*)(void* handle, const char* name);
RealDlsym real_dlsym();

// For dlsym() of a name that begins with "cu". False: the real one shall answer, with the caller's
// return address.
bool answer_lookup(void* handle, const char* name, void* caller, void*& address);

// A wrapper of `real`, or `real` itself where the function is none that we know. `version` is that
// which cuGetProcAddress() was asked for: it decides what a base name stands for.
void* wrapper_of_driver_function(const char* base_name, int version, void* real);

// The real function behind one that we export, as the code at `caller` would have found it. Null
// if there is none.
void* real_behind_export(const char* symbol, void* caller);

// Whether that code is this library's.
bool is_our_code(const void* address);

}  // namespace plimsoll::cuda_driver
