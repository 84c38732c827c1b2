// A preload library for `faults`: fails the n-th call of one kind made by Plimsoll's own binaries
// or threads. Calls that they make through the C and C++ libraries count too. All other calls of
// the process are unaffected.
//
// It is armed in the child of a fork, by failing_calls_begin(), so that each n costs milliseconds.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <new>

namespace {

enum Call : int { kMalloc, kOpen, kWrite, kMmap, kThread, kDlopen };

std::atomic<int> g_call{-1};
std::atomic<std::uint64_t> g_first{0};
std::atomic<std::uint64_t> g_last{0};
std::atomic<std::uint64_t> g_count{0};
std::atomic<bool> g_shows_calls{false};

thread_local int t_inside [[gnu::tls_model("initial-exec")]] = 0;

struct Inside {
  Inside() { ++t_inside; }
  ~Inside() { --t_inside; }
};

// ---- which binary an address belongs to ---------------------------------------------------------

enum class Owner : std::uint8_t { kOther, kPlimsoll, kLibrary };

struct Range {
  std::uintptr_t begin = 0, end = 0;
  Owner owner = Owner::kOther;
};

// Written by one thread at a time; readers see a row once the count covers it.
Range g_ranges[4096];
std::atomic<std::size_t> g_range_count{0};
pthread_mutex_t g_ranges_mutex = PTHREAD_MUTEX_INITIALIZER;

Owner owner_of_path(const char* path) {
  if (path == nullptr) return Owner::kOther;
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash != nullptr ? slash + 1 : path;
  // The cached adapter is loaded from memory, through /proc/self/fd/./N.
  for (const char* part : {"plimsoll", "_record.", "_core."}) {
    if (std::strstr(name, part) != nullptr) return Owner::kPlimsoll;
  }
  if (std::strncmp(path, "/proc/self/fd/", 14) == 0) return Owner::kPlimsoll;
  for (const char* part : {"libc.so", "libstdc++.so", "ld-linux", "libgcc_s.so", "libm.so",
                           "libpthread.so", "libdl.so", "failing_calls"}) {
    if (std::strncmp(name, part, std::strlen(part)) == 0) return Owner::kLibrary;
  }
  return Owner::kOther;
}

int add_object(dl_phdr_info* info, std::size_t, void*) {
  const Owner owner = owner_of_path(info->dlpi_name);
  if (owner == Owner::kOther) return 0;
  std::size_t count = g_range_count.load(std::memory_order_relaxed);
  for (int i = 0; i < info->dlpi_phnum && count < std::size(g_ranges); ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    bool is_known = false;
    for (std::size_t k = 0; k < count; ++k) is_known = is_known || g_ranges[k].begin == begin;
    if (is_known) continue;
    g_ranges[count++] = {begin, begin + header.p_memsz, owner};
  }
  g_range_count.store(count, std::memory_order_release);
  return 0;
}

void list_objects() {
  pthread_mutex_lock(&g_ranges_mutex);
  dl_iterate_phdr(add_object, nullptr);
  pthread_mutex_unlock(&g_ranges_mutex);
}

Owner owner_of(std::uintptr_t address) {
  const std::size_t count = g_range_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    if (address >= g_ranges[i].begin && address < g_ranges[i].end) return g_ranges[i].owner;
  }
  return Owner::kOther;
}

struct Walk {
  Owner owner = Owner::kOther;
  bool is_over = false;
  int depth = 0;
};

// Finds the nearest caller outside the C and C++ libraries.
_Unwind_Reason_Code visit_frame(_Unwind_Context* context, void* argument) {
  Walk& walk = *static_cast<Walk*>(argument);
  const std::uintptr_t address = _Unwind_GetIP(context);
  walk.owner = address == 0 ? Owner::kLibrary : owner_of(address - 1);
  if (++walk.depth == 40) return _URC_END_OF_STACK;
  return walk.owner == Owner::kLibrary ? _URC_NO_REASON : _URC_END_OF_STACK;
}

bool is_thread_of_plimsoll() {
  char name[16] = {};
  return pthread_getname_np(pthread_self(), name, sizeof name) == 0 &&
         std::strncmp(name, "plimsoll", 8) == 0;
}

bool is_of_plimsoll(std::uintptr_t caller) {
  const Owner direct = owner_of(caller - 1);
  if (direct == Owner::kPlimsoll) return true;
  if (direct == Owner::kOther) return is_thread_of_plimsoll();
  Walk walk;
  _Unwind_Backtrace(visit_frame, &walk);
  return walk.owner == Owner::kPlimsoll ||
         (walk.owner == Owner::kLibrary && is_thread_of_plimsoll());
}

// ---- counting ---------------------------------------------------------------------------------

_Unwind_Reason_Code show_frame(_Unwind_Context* context, void* argument) {
  int& depth = *static_cast<int*>(argument);
  if (++depth > 24) return _URC_END_OF_STACK;
  const std::uintptr_t address = _Unwind_GetIP(context);
  Dl_info info{};
  if (address == 0 || dladdr(reinterpret_cast<void*>(address), &info) == 0) return _URC_NO_REASON;
  dprintf(2, "  failing call: %s+0x%lx %s\n", info.dli_fname,
          static_cast<unsigned long>(address - reinterpret_cast<std::uintptr_t>(info.dli_fbase)),
          info.dli_sname != nullptr ? info.dli_sname : "");
  return _URC_NO_REASON;
}

[[gnu::noinline]] bool counts_and_fails(std::uintptr_t caller) {
  if (t_inside > 0) return false;
  const Inside inside;
  const int error = errno;
  bool fails = false;
  if (is_of_plimsoll(caller)) {
    const std::uint64_t number = g_count.fetch_add(1, std::memory_order_relaxed) + 1;
    fails = number >= g_first.load(std::memory_order_relaxed) &&
            number <= g_last.load(std::memory_order_relaxed);
    if (fails && number == g_first && g_shows_calls) {
      int depth = 0;
      _Unwind_Backtrace(show_frame, &depth);
    }
  }
  errno = error;
  return fails;
}

[[gnu::always_inline]] inline bool fails(Call call, void* caller) {
  if (g_call.load(std::memory_order_relaxed) != call) [[likely]]
    return false;
  return counts_and_fails(reinterpret_cast<std::uintptr_t>(caller));
}

template <typename Function>
Function* next(const char* name) {
  const Inside inside;
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

[[gnu::constructor]] void prepare() {
  list_objects();
  Walk walk;
  _Unwind_Backtrace(visit_frame, &walk);  // loads its libraries now
}

}  // namespace

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))
#define EXPORTED extern "C" __attribute__((visibility("default")))

// From now on, the n-th to the `last`-th call of a kind fail. 0: calls are only counted.
EXPORTED void failing_calls_begin(int call, std::uint64_t first, std::uint64_t last, int shows) {
  list_objects();
  g_count = 0;
  g_first = first != 0 ? first : ~std::uint64_t{0};
  g_last = last;
  g_shows_calls = shows != 0;
  g_call = call;
}
EXPORTED std::uint64_t failing_calls_end() {
  g_call = -1;
  return g_count;
}

// ---- memory -----------------------------------------------------------------------------------

EXPORTED void* __libc_malloc(std::size_t);
EXPORTED void* __libc_calloc(std::size_t, std::size_t);
EXPORTED void* __libc_realloc(void*, std::size_t);
EXPORTED void* __libc_memalign(std::size_t, std::size_t);

namespace {
void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}
void* new_or_throw(std::size_t size, void* caller) {
  void* const memory = fails(kMalloc, caller) ? nullptr : __libc_malloc(size != 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* new_or_throw(std::size_t size, std::align_val_t alignment, void* caller) {
  void* const memory =
      fails(kMalloc, caller) ? nullptr : __libc_memalign(static_cast<std::size_t>(alignment), size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

EXPORTED void* malloc(std::size_t size) {
  return fails(kMalloc, CALLER) ? no_memory() : __libc_malloc(size);
}
EXPORTED void* calloc(std::size_t count, std::size_t size) {
  return fails(kMalloc, CALLER) ? no_memory() : __libc_calloc(count, size);
}
EXPORTED void* realloc(void* memory, std::size_t size) {
  return fails(kMalloc, CALLER) ? no_memory() : __libc_realloc(memory, size);
}
EXPORTED void* memalign(std::size_t alignment, std::size_t size) {
  return fails(kMalloc, CALLER) ? no_memory() : __libc_memalign(alignment, size);
}
EXPORTED void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return fails(kMalloc, CALLER) ? no_memory() : __libc_memalign(alignment, size);
}
EXPORTED int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  if (fails(kMalloc, CALLER)) return ENOMEM;
  *memory = __libc_memalign(alignment, size);
  return *memory != nullptr ? 0 : ENOMEM;
}
#define VISIBLE __attribute__((visibility("default")))
VISIBLE void* operator new(std::size_t size) { return new_or_throw(size, CALLER); }
VISIBLE void* operator new[](std::size_t size) { return new_or_throw(size, CALLER); }
VISIBLE void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return fails(kMalloc, CALLER) ? nullptr : __libc_malloc(size != 0 ? size : 1);
}
VISIBLE void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return fails(kMalloc, CALLER) ? nullptr : __libc_malloc(size != 0 ? size : 1);
}
VISIBLE void* operator new(std::size_t size, std::align_val_t alignment) {
  return new_or_throw(size, alignment, CALLER);
}
VISIBLE void* operator new[](std::size_t size, std::align_val_t alignment) {
  return new_or_throw(size, alignment, CALLER);
}

// ---- files ------------------------------------------------------------------------------------

#define OPENS(name, ...)                                 \
  static auto* const real = next<decltype(name)>(#name); \
  if (fails(kOpen, CALLER)) {                            \
    errno = EMFILE;                                      \
    return -1;                                           \
  }                                                      \
  va_list rest;                                          \
  va_start(rest, flags);                                 \
  const mode_t mode = va_arg(rest, mode_t);              \
  va_end(rest);                                          \
  return real(__VA_ARGS__, flags, mode)

EXPORTED int open(const char* path, int flags, ...) { OPENS(open, path); }
EXPORTED int open64(const char* path, int flags, ...) { OPENS(open64, path); }
EXPORTED int openat(int folder, const char* path, int flags, ...) { OPENS(openat, folder, path); }
EXPORTED int openat64(int folder, const char* path, int flags, ...) {
  OPENS(openat64, folder, path);
}
EXPORTED FILE* fopen(const char* path, const char* mode) {
  static auto* const real = next<decltype(fopen)>("fopen");
  if (!fails(kOpen, CALLER)) return real(path, mode);
  errno = EMFILE;
  return nullptr;
}
EXPORTED FILE* fopen64(const char* path, const char* mode) {
  static auto* const real = next<decltype(fopen)>("fopen64");
  if (!fails(kOpen, CALLER)) return real(path, mode);
  errno = EMFILE;
  return nullptr;
}

#define WRITES(name, ...)                                \
  static auto* const real = next<decltype(name)>(#name); \
  if (!fails(kWrite, CALLER)) return real(__VA_ARGS__);  \
  errno = ENOSPC;                                        \
  return -1

EXPORTED ssize_t write(int file, const void* bytes, std::size_t size) {
  WRITES(write, file, bytes, size);
}
EXPORTED ssize_t pwrite(int file, const void* bytes, std::size_t size, off_t at) {
  WRITES(pwrite, file, bytes, size, at);
}
EXPORTED ssize_t pwrite64(int file, const void* bytes, std::size_t size, off64_t at) {
  WRITES(pwrite64, file, bytes, size, at);
}
EXPORTED ssize_t writev(int file, const iovec* parts, int count) {
  WRITES(writev, file, parts, count);
}

// ---- the rest ---------------------------------------------------------------------------------

#define MAPS(name, offset_type)                                                             \
  EXPORTED void* name(void* address, std::size_t size, int protection, int flags, int file, \
                      offset_type at) {                                                     \
    static auto* const real = next<decltype(name)>(#name);                                  \
    if (!fails(kMmap, CALLER)) return real(address, size, protection, flags, file, at);     \
    errno = ENOMEM;                                                                         \
    return MAP_FAILED;                                                                      \
  }
MAPS(mmap, off_t)
MAPS(mmap64, off64_t)

EXPORTED int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                            void* (*body)(void*), void* argument) {
  static auto* const real = next<decltype(pthread_create)>("pthread_create");
  if (fails(kThread, CALLER)) return EAGAIN;
  return real(thread, attributes, body, argument);
}

// dlopen() uses its caller's search path, so this must be a tail call.
namespace {
using Dlopen = void*(const char*, int);
Dlopen* g_dlopen = next<Dlopen>("dlopen");
}  // namespace
EXPORTED void* dlopen(const char* path, int flags) {
  if (g_dlopen == nullptr) g_dlopen = next<Dlopen>("dlopen");
  if (fails(kDlopen, CALLER)) path = "/a library that does not exist";
  if (path == nullptr || std::strncmp(path, "/proc/self/fd/", 14) != 0)
    return g_dlopen(path, flags);
  void* const library = g_dlopen(path, flags);  // the adapter: its calls count from now on
  list_objects();
  return library;
}
