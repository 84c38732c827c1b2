// A libcuda.so.1 for tests: two devices of $FAKE_CUDA_BYTES each (default 1 GiB), whose addresses
// are not mapped. It counts its allocations; at exit it writes the counts as lines "NAME VALUE" to
// $FAKE_CUDA_REPORTS.PID. It refuses to free unknown addresses, and refuses the next free after
// fake_refuse().
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace {

constexpr int kDevices = 2;
constexpr int kHost = kDevices;  // pinned memory is counted separately
constexpr int kInvalid = 1;
constexpr int kNoMemory = 2;
constexpr std::uint64_t kPage = 2 << 20;

struct Memory {
  std::uint64_t size_bytes = 0;
  int place = 0;
  int holds = 1;  // handles and mappings
};

struct Totals {
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t refused = 0;
};

std::mutex mutex;
std::map<std::uint64_t, Memory> memories;
std::map<std::uint64_t, std::uint64_t> mapped;  // address to handle
std::array<Totals, kDevices + 1> totals;
std::uint64_t next_address = 0x7f00'0000'0000;
bool refuses_next = false;
thread_local int current = 0;

std::uint64_t capacity_bytes() {
  const char* reported = std::getenv("FAKE_CUDA_BYTES");
  return reported != nullptr ? std::strtoull(reported, nullptr, 10) : std::uint64_t{1} << 30;
}

int take(std::uint64_t size_bytes, int place, std::uint64_t* address) {
  const std::lock_guard lock(mutex);
  errno = 77;  // a driver may leave errno changed
  Totals& there = totals[static_cast<std::size_t>(place)];
  if (size_bytes == 0) return kInvalid;
  if (there.live_bytes + size_bytes > capacity_bytes()) {
    ++there.refused;
    return kNoMemory;
  }
  *address = next_address;
  next_address += (size_bytes + kPage - 1) / kPage * kPage;
  memories[*address] = {size_bytes, place};
  ++there.allocations;
  there.allocated_bytes += size_bytes;
  there.live_bytes += size_bytes;
  if (there.live_bytes > there.peak_bytes) there.peak_bytes = there.live_bytes;
  return 0;
}

int abandon(std::uint64_t address) {
  const auto found = memories.find(address);
  if (found == memories.end()) return kInvalid;
  if (--found->second.holds > 0) return 0;
  totals[static_cast<std::size_t>(found->second.place)].live_bytes -= found->second.size_bytes;
  memories.erase(found);
  return 0;
}

int give(std::uint64_t address) {
  const std::lock_guard lock(mutex);
  errno = 78;
  if (std::exchange(refuses_next, false)) return kInvalid;
  return address == 0 ? 0 : abandon(address);
}

[[gnu::destructor]] void emit() {
  const char* reported = std::getenv("FAKE_CUDA_REPORTS");
  if (reported == nullptr) return;
  const std::string path = std::string(reported) + "." + std::to_string(getpid());
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return;
  for (int place = 0; place <= kDevices; ++place) {
    const Totals& there = totals[static_cast<std::size_t>(place)];
    const std::string name = place == kHost ? "host" : "cuda" + std::to_string(place);
    const auto line = [&](const char* what, std::uint64_t value) {
      std::fprintf(file, "%s.%s %llu\n", name.c_str(), what,
                   static_cast<unsigned long long>(value));
    };
    line("allocations", there.allocations);
    line("allocated_bytes", there.allocated_bytes);
    line("live_bytes", there.live_bytes);
    line("peak_bytes", there.peak_bytes);
    line("refused", there.refused);
  }
  std::fclose(file);
}

}  // namespace

extern "C" {

void fake_set_device(int device) { current = device; }
void fake_refuse() { refuses_next = true; }

int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int* count) {
  *count = kDevices;
  return 0;
}
int cuCtxGetDevice(int* device) {
  *device = current;
  return 0;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  for (int i = 0; i < 16; ++i) uuid[i] = static_cast<unsigned char>(device * 16 + i);
  return 0;
}
int cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  const std::lock_guard lock(mutex);
  *total_bytes = capacity_bytes();
  *free_bytes = *total_bytes - totals[static_cast<std::size_t>(current)].live_bytes;
  return 0;
}
int cuPointerGetAttribute(void* data, int attribute, std::uint64_t address) {
  const std::lock_guard lock(mutex);
  const auto found = memories.find(address);
  if (attribute != 9 || found == memories.end()) return kInvalid;
  *static_cast<int*>(data) = found->second.place;
  return 0;
}

// Version 1, from before 64-bit addresses.
int cuMemAlloc(unsigned* address, unsigned) {
  *address = 0xDEAD;
  return 0;
}
int cuMemAlloc_v2(std::uint64_t* address, std::size_t size) { return take(size, current, address); }
int cuMemAllocManaged(std::uint64_t* address, std::size_t size, unsigned) {
  return take(size, current, address);
}
int cuMemAllocPitch_v2(std::uint64_t* address, std::size_t* pitch, std::size_t width,
                       std::size_t height, unsigned) {
  *pitch = (width + 511) / 512 * 512;
  return take(*pitch * height, current, address);
}
int cuMemAllocAsync(std::uint64_t* address, std::size_t size, void*) {
  return take(size, current, address);
}
int cuMemAllocAsync_ptsz(std::uint64_t* address, std::size_t size, void*) {
  return take(size, current, address);
}
// A pool's handle is its device's number plus one.
int cuMemAllocFromPoolAsync(std::uint64_t* address, std::size_t size, void* pool, void*) {
  return take(size, static_cast<int>(reinterpret_cast<std::uintptr_t>(pool)) - 1, address);
}
int cuMemFree_v2(std::uint64_t address) { return give(address); }
int cuMemFreeAsync(std::uint64_t address, void*) { return give(address); }
int cuMemFreeAsync_ptsz(std::uint64_t address, void*) { return give(address); }
int cuMemHostAlloc(void** address, std::size_t size, unsigned) {
  return take(size, kHost, reinterpret_cast<std::uint64_t*>(address));
}
int cuMemAllocHost_v2(void** address, std::size_t size) {
  return take(size, kHost, reinterpret_cast<std::uint64_t*>(address));
}
int cuMemFreeHost(void* address) { return give(reinterpret_cast<std::uint64_t>(address)); }

// A handle is the address of its memory.
int cuMemCreate(std::uint64_t* handle, std::size_t size, const int* properties,
                unsigned long long) {
  return take(size, properties[2] == 1 ? properties[3] : kHost, handle);
}
int cuMemRelease(std::uint64_t handle) { return give(handle); }
int cuMemMap(std::uint64_t address, std::size_t, std::size_t, std::uint64_t handle,
             unsigned long long) {
  const std::lock_guard lock(mutex);
  const auto found = memories.find(handle);
  if (found == memories.end()) return kInvalid;
  mapped[address] = handle;
  ++found->second.holds;
  return 0;
}
int cuMemUnmap(std::uint64_t address, std::size_t size) {
  const std::lock_guard lock(mutex);
  auto at = mapped.lower_bound(address);
  if (at == mapped.end()) return kInvalid;
  while (at != mapped.end() && at->first < address + size) {
    abandon(at->second);
    at = mapped.erase(at);
  }
  return 0;
}
int cuMemRetainAllocationHandle(std::uint64_t* handle, void* address) {
  const std::lock_guard lock(mutex);
  const auto found = mapped.find(reinterpret_cast<std::uint64_t>(address));
  if (found == mapped.end()) return kInvalid;
  *handle = found->second;
  ++memories[*handle].holds;
  return 0;
}

int cuDevicePrimaryCtxReset_v2(int device) {
  const std::lock_guard lock(mutex);
  for (auto row = memories.begin(); row != memories.end();) {
    if (row->second.place != device) {
      ++row;
      continue;
    }
    totals[static_cast<std::size_t>(device)].live_bytes -= row->second.size_bytes;
    row = memories.erase(row);
  }
  return 0;
}

int cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags);
int cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags,
                        int* status);
}

namespace {

struct Symbol {
  const char* name;
  void* address;
};
#define SYMBOL(name) {#name, reinterpret_cast<void*>(&name)}
const Symbol kSymbols[] = {
    SYMBOL(cuCtxGetDevice),
    SYMBOL(cuDevicePrimaryCtxReset_v2),
    SYMBOL(cuGetProcAddress),
    SYMBOL(cuGetProcAddress_v2),
    SYMBOL(cuMemAlloc),
    SYMBOL(cuMemAllocAsync),
    SYMBOL(cuMemAllocAsync_ptsz),
    SYMBOL(cuMemAllocFromPoolAsync),
    SYMBOL(cuMemAllocHost_v2),
    SYMBOL(cuMemAllocManaged),
    SYMBOL(cuMemAllocPitch_v2),
    SYMBOL(cuMemAlloc_v2),
    SYMBOL(cuMemCreate),
    SYMBOL(cuMemFreeAsync),
    SYMBOL(cuMemFreeAsync_ptsz),
    SYMBOL(cuMemFreeHost),
    SYMBOL(cuMemFree_v2),
    SYMBOL(cuMemHostAlloc),
    SYMBOL(cuMemMap),
    SYMBOL(cuMemRelease),
    SYMBOL(cuMemUnmap),
    SYMBOL(cuMemRetainAllocationHandle),
};

void* find(const std::string& name) {
  for (const Symbol& symbol : kSymbols) {
    if (name == symbol.name) return symbol.address;
  }
  return nullptr;
}

}  // namespace

extern "C" {

// Returns the second version of a function that has one to callers that request 3.2 or later (12.0
// for itself); with flag 2, the per-thread-stream variant. Does not use dlsym(), as the real driver
// does not.
int cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags,
                        int* status) {
  const std::string name = symbol;
  const int second_since = name == "cuGetProcAddress" ? 12000 : 3020;
  *function = flags == 2 ? find(name + "_ptsz") : nullptr;
  if (*function == nullptr && version >= second_since) *function = find(name + "_v2");
  if (*function == nullptr) *function = find(name);
  if (status != nullptr) *status = *function != nullptr ? 0 : 1;
  return *function != nullptr ? 0 : 500;
}
int cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
}
