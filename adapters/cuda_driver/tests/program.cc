// A program that requests CUDA memory as its arguments say, one after another:
//   plugin:N (of the asking library, opened at run time with RTLD_LOCAL)
//   malloc:N managed:N async:N ptsz:N pool:DEVICE.N host:N hostalloc:N pitch:WxH 3d:WxHxD library:N
//   next:N (dlsym(RTLD_NEXT); N: whether the linker knows a runtime)
//   driver:N (cuMemAlloc_v2 by dlsym) old (must stay unwrapped) missing (does not exist)
//   free (the last one) free-all bad-free refuse (the driver refuses the next free) device:N reset
//   create:N map unmap release retain (of the last physical memory)
//   cost:N (prints what a pair of N cudaMalloc and cudaFree takes of the thread's time)
//   again:N (N allocations and frees) threads:N (N threads, each again:1000)
//   fork:N (a child allocates N) exit _exit abort kill
// Prints the result of each call that did not return 0.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "fake_runtime.h"

extern "C" int asking_library_workspace(void** address, size_t size);

namespace {

struct Held {
  void* address;
  enum Kind { kPlain, kAsync, kHost, kDriver } kind;
};
std::vector<Held> held;

void* driver() {
  static void* const handle = dlopen("libcuda.so.1", RTLD_NOW);
  return handle;
}
template <typename Function>
Function* of_driver(const char* name) {
  return reinterpret_cast<Function*>(dlsym(driver(), name));
}

void check(bool is_right, const char* what) {
  if (is_right) return;
  std::printf("wrong: %s\n", what);
  std::fflush(stdout);
  _exit(99);
}

// Takes the address by reference, because the call that fills it in is an argument too.
int keep(int result, void* const& address, Held::Kind kind) {
  if (result == 0) held.push_back({address, kind});
  return result;
}

int free_last() {
  const Held last = held.back();
  held.pop_back();
  switch (last.kind) {
    case Held::kPlain:
      return cudaFree(last.address);
    case Held::kAsync:
      return cudaFreeAsync(last.address, nullptr);
    case Held::kHost:
      return cudaFreeHost(last.address);
    case Held::kDriver:
      return of_driver<int(std::uint64_t)>("cuMemFree_v2")((std::uint64_t)last.address);
  }
  return -1;
}

int again(long count, unsigned seed) {
  void* slots[64] = {};
  for (long i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    void*& slot = slots[(seed >> 16) % 64];
    if (slot != nullptr && cudaFree(slot) != 0) return -1;
    if (cudaMalloc(&slot, 1 + (seed >> 12)) != 0) return -1;
  }
  for (void* slot : slots) {
    if (slot != nullptr && cudaFree(slot) != 0) return -1;
  }
  return 0;
}

double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

int cost(long pairs) {
  const double began_ns = thread_ns();
  for (long i = 0; i < pairs; ++i) {
    void* address = nullptr;
    if (cudaMalloc(&address, 1024) != 0 || cudaFree(address) != 0) return -1;
  }
  std::printf("%.0f ns a pair\n", (thread_ns() - began_ns) / static_cast<double>(pairs));
  return 0;
}

int in_threads(long count) {
  std::vector<std::thread> threads;
  for (long i = 0; i < count; ++i) {
    threads.emplace_back([i] { check(again(1000, static_cast<unsigned>(i)) == 0, "a thread"); });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

// Functions for 32-bit addresses stay the driver's own.
int old_functions() {
  unsigned address = 0;
  check(of_driver<int(unsigned*, unsigned)>("cuMemAlloc")(&address, 64) == 0, "old cuMemAlloc");
  check(address == 0xDEAD, "old cuMemAlloc's address");
  void* function = nullptr;
  of_driver<int(const char*, void**, int, std::uint64_t)>("cuGetProcAddress")("cuMemAlloc",
                                                                              &function, 2000, 0);
  check(function == dlsym(driver(), "cuMemAlloc"), "cuGetProcAddress of an old version");
  check(of_driver<int()>("cuMemFree_v2") == of_driver<int()>("cuMemFree_v2"), "the same twice");
  // The driver returns its own cuGetProcAddress too: functions obtained through it are wrapped as
  // well.
  void* lookup = nullptr;
  of_driver<int(const char*, void**, int, std::uint64_t)>("cuGetProcAddress")("cuGetProcAddress",
                                                                              &lookup, 12000, 0);
  int status = -1;
  reinterpret_cast<int (*)(const char*, void**, int, std::uint64_t, int*)>(lookup)(
      "cuMemFree", &function, 12000, 0, &status);
  check(function == dlsym(driver(), "cuMemFree_v2") && status == 0, "the lookup's own lookup");
  return 0;
}

int missing_functions() {
  dlerror();
  check(dlsym(driver(), "cuMemAllocFromPoolAsync_ptsz") == nullptr, "found what is not there");
  check(dlerror() != nullptr, "no word of it");
  check(dlsym(RTLD_DEFAULT, "cuNothing") == nullptr, "found nothing");
  void* function = &function;
  const int result = of_driver<int(const char*, void**, int, std::uint64_t)>("cuGetProcAddress")(
      "cuNothing", &function, 12000, 0);
  check(result == 500 && function == nullptr, "the driver's answer");
  return 0;
}

// RTLD_NEXT must search from this library, whatever comes in between.
int next_function(bool has_runtime) {
  void* const next = dlsym(RTLD_NEXT, "malloc");
  check(next != nullptr && next == dlsym(RTLD_DEFAULT, "malloc"), "the next malloc");
  check(dlsym(RTLD_NEXT, "no_such_function") == nullptr && dlerror() != nullptr,
        "the next nothing");
  for (void* const where : {RTLD_NEXT, RTLD_DEFAULT}) {
    void* const found = dlsym(where, "cudaMalloc");
    check((found != nullptr) == has_runtime, "the next cudaMalloc");
    void* address = nullptr;
    if (found == nullptr) continue;
    check(reinterpret_cast<decltype(&cudaMalloc)>(found)(&address, 5) == 0, "its call");
    check(cudaFree(address) == 0, "its free");
  }
  return 0;
}

int in_child(std::size_t size) {
  const pid_t child = fork();
  if (child == 0) {
    void* address = nullptr;
    const bool is_given = cudaMalloc(&address, size) == 0;
    std::exit(is_given ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

std::uint64_t physical = 0;
std::uint64_t physical_size = 0;
constexpr std::uint64_t kMapped = 0x6000'0000'0000;

int create(std::size_t size) {
  int properties[8] = {1, 0, 1, 1};  // on device 1
  physical_size = size;
  return of_driver<int(std::uint64_t*, std::size_t, const int*, unsigned long long)>("cuMemCreate")(
      &physical, size, properties, 0);
}
int map() {
  return of_driver<int(std::uint64_t, std::size_t, std::size_t, std::uint64_t, unsigned long long)>(
      "cuMemMap")(kMapped, physical_size, 0, physical, 0);
}
int unmap() {
  return of_driver<int(std::uint64_t, std::size_t)>("cuMemUnmap")(kMapped, physical_size);
}
int release() { return of_driver<int(std::uint64_t)>("cuMemRelease")(physical); }
int retain() {
  return of_driver<int(std::uint64_t*, void*)>("cuMemRetainAllocationHandle")(
      &physical, reinterpret_cast<void*>(kMapped));
}

int allocate(const std::string& word, const std::string& value) {
  const std::size_t n = std::strtoull(value.c_str(), nullptr, 10);
  void* address = nullptr;
  if (word == "malloc") return keep(cudaMalloc(&address, n), address, Held::kPlain);
  if (word == "library") {
    return keep(asking_library_workspace(&address, n), address, Held::kPlain);
  }
  if (word == "plugin") {
    void* const plugin = dlopen("libasking_library.so", RTLD_NOW | RTLD_LOCAL);
    check(plugin != nullptr, "the plugin");
    auto* const ask = reinterpret_cast<decltype(&asking_library_workspace)>(
        dlsym(plugin, "asking_library_workspace"));
    return keep(ask(&address, n), address, Held::kDriver);
  }
  if (word == "managed") return keep(cudaMallocManaged(&address, n, 1), address, Held::kPlain);
  if (word == "async") return keep(cudaMallocAsync(&address, n, nullptr), address, Held::kAsync);
  if (word == "ptsz")
    return keep(cudaMallocAsync_ptsz(&address, n, nullptr), address, Held::kAsync);
  if (word == "host") return keep(cudaMallocHost(&address, n), address, Held::kHost);
  if (word == "hostalloc") return keep(cudaHostAlloc(&address, n, 0), address, Held::kHost);
  if (word == "pool") {
    const std::size_t size = std::strtoull(value.c_str() + value.find('.') + 1, nullptr, 10);
    void* const pool = reinterpret_cast<void*>(n + 1);
    return keep(cudaMallocFromPoolAsync(&address, size, pool, nullptr), address, Held::kAsync);
  }
  if (word == "driver") {
    std::uint64_t given = 0;
    const int result = of_driver<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2")(&given, n);
    return keep(result, reinterpret_cast<void*>(given), Held::kDriver);
  }
  const std::size_t height = std::strtoull(value.c_str() + value.find('x') + 1, nullptr, 10);
  if (word == "pitch") {
    std::size_t pitch = 0;
    return keep(cudaMallocPitch(&address, &pitch, n, height), address, Held::kPlain);
  }
  const std::size_t depth = std::strtoull(value.c_str() + value.rfind('x') + 1, nullptr, 10);
  Pitched memory{};
  const int result = cudaMalloc3D(&memory, {n, height, depth});
  return keep(result, memory.address, Held::kPlain);
}

void let_the_recorder_write() {
  const timespec point{0, 400'000'000};
  nanosleep(&point, nullptr);
}

int act(const std::string& word, const std::string& value) {
  const long n = std::atol(value.c_str());
  if (word == "free") return free_last();
  if (word == "free-all") {
    while (!held.empty()) check(free_last() == 0, "a free");
    return 0;
  }
  if (word == "bad-free") return cudaFree(reinterpret_cast<void*>(0x1234'5000));
  if (word == "refuse") {
    of_driver<void()>("fake_refuse")();
    return 0;
  }
  if (word == "device") return cudaSetDevice(static_cast<int>(n));
  if (word == "reset") return cudaDeviceReset();
  if (word == "old") return old_functions();
  if (word == "missing") return missing_functions();
  if (word == "create") return create(static_cast<std::size_t>(n));
  if (word == "map") return map();
  if (word == "unmap") return unmap();
  if (word == "release") return release();
  if (word == "retain") return retain();
  if (word == "again") return again(n, 7);
  if (word == "cost") return cost(n);
  if (word == "threads") return in_threads(n);
  if (word == "fork") return in_child(static_cast<std::size_t>(n));
  if (word == "next") return next_function(n != 0);
  if (word == "exit") std::exit(static_cast<int>(n));
  if (word == "_exit" || word == "abort" || word == "kill") let_the_recorder_write();
  if (word == "_exit") _exit(static_cast<int>(n));
  if (word == "abort") std::abort();
  if (word == "kill") raise(SIGKILL);
  if (word == "errno") {  // the driver's errno, not the library's
    check(errno == n, "errno");
    return 0;
  }
  return allocate(word, value);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t colon = word.find(':');
    const std::string value = colon == std::string::npos ? "" : word.substr(colon + 1);
    const int result = act(word.substr(0, colon), value);
    if (result != 0) std::printf("%s: %d\n", argv[i], result);
  }
}
