#include "lookup.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "wrapped_functions.h"

extern "C" {
extern void* plimsoll_dlsym;
void* plimsoll_find_dlsym();
// Defined by the linker: the first and last address of this library.
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];
[[gnu::visibility("hidden")]] extern const char _end[];
}

namespace plimsoll::cuda_driver {
namespace {

// Base names for which cuGetProcAddress() returns the second version of a function, and the first
// CUDA version that does so.
struct BaseName {
  std::string_view name;
  std::string_view symbol;
  int since;
};
constexpr BaseName kBaseNames[] = {
    {"cuMemAlloc", "cuMemAlloc_v2", 3020},
    {"cuMemAllocPitch", "cuMemAllocPitch_v2", 3020},
    {"cuMemFree", "cuMemFree_v2", 3020},
    {"cuMemAllocHost", "cuMemAllocHost_v2", 3020},
    {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2", 11000},
};

bool is_cuda_itself(void* function) {
  Dl_info info{};
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view path = info.dli_fname;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libcuda");  // libcuda.so.1 or libcudart.so.12, libcudart-abcd.so
}

// Finds a symbol among the dependencies of the calling library. The main program has only the
// global ones.
void* find_in_scope_of(void* caller, const char* symbol) {
  Dl_info info{};
  link_map* map = nullptr;
  if (dladdr1(caller, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) return nullptr;
  if (map == nullptr || map->l_name == nullptr || map->l_name[0] == '\0') return nullptr;
  if (is_our_code(caller)) return nullptr;
  void* const handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* found = real_dlsym()(handle, symbol);
  dlclose(handle);
  return found != nullptr && is_our_code(found) ? nullptr : found;
}

// Prevents the function's library from being unloaded while a wrapper calls the function.
void keep_loaded(void* function) {
  Dl_info info{};
  if (dladdr(function, &info) != 0 && info.dli_fname != nullptr) {
    static_cast<void>(dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD));
  }
}

}  // namespace

RealDlsym real_dlsym() {
  void* real = __atomic_load_n(&plimsoll_dlsym, __ATOMIC_ACQUIRE);
  if (real == nullptr) real = plimsoll_find_dlsym();
  return reinterpret_cast<RealDlsym>(real);
}

bool is_our_code(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return at >= reinterpret_cast<std::uintptr_t>(__ehdr_start) &&
         at < reinterpret_cast<std::uintptr_t>(_end);
}

// Two runtimes in one process have functions of the same name. The caller's own dependencies
// determine which one it means. Another interposer that was loaded before both takes precedence, as
// it would without this library.
void* real_behind_export(const char* symbol, void* caller) {
  void* const next = real_dlsym()(RTLD_NEXT, symbol);
  if (next != nullptr && !is_cuda_itself(next)) return next;
  void* const own = find_in_scope_of(caller, symbol);
  void* const found = own != nullptr ? own : next;
  if (found != nullptr) keep_loaded(found);
  return found;
}

bool answer_lookup(void* handle, const char* name, void* caller, void*& address) {
  const WrappedFunction* const function = find_wrapped(name);
  if (function == nullptr || is_our_code(caller)) return false;
  void* found = nullptr;
  if (handle != RTLD_NEXT && handle != RTLD_DEFAULT) {
    found = real_dlsym()(handle, name);
    if (found == nullptr) return true;
  }
  if (found == nullptr || is_our_code(found)) {
    found = real_behind_export(name, caller);
    if (found == nullptr) {
      real_dlsym()(RTLD_NEXT, name);  // so that dlerror() has its message
      return true;
    }
    // The caller of RTLD_NEXT may be an interposer itself: the next function depends on the
    // caller's position, and may be the one that we export.
    if (handle == RTLD_NEXT) return false;
  }
  dlerror();  // discard errors of the failed attempts
  address = function->wrap(found);
  return true;
}

void* wrapper_of_driver_function(const char* base_name, int version, void* real) {
  std::string_view symbol = base_name;
  for (const BaseName& base : kBaseNames) {
    if (symbol != base.name) continue;
    if (version < base.since) return real;  // older than 64-bit addresses
    symbol = base.symbol;
    break;
  }
  const WrappedFunction* const function = find_wrapped(symbol);
  return function != nullptr ? function->wrap(real) : real;
}

}  // namespace plimsoll::cuda_driver
