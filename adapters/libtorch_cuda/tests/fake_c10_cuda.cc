// libc10_cuda.so without CUDA: torch's allocator interface over host memory, for machines without a
// GPU. It is compiled against torch's own headers, so the adapter calls the same functions as in
// torch. It notifies its trackers and updates torch's gauges in the same order as torch's
// allocator.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/util/Gauge.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fake_heap.h"

extern "C" cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = 0;
  return cudaSuccess;
}

namespace c10::cuda {
void c10_cuda_check_implementation(const int32_t, const char*, const char*, const uint32_t,
                                   const bool) {}
}  // namespace c10::cuda

namespace {

namespace torch_cuda = c10::cuda::CUDACachingAllocator;
using c10::CachingDeviceAllocator::TraceEntry;

constexpr int kDevices = 2;
constexpr std::uint64_t kDeviceBytes = 1024 * fake::kMiB;

// An event in torch's own history.
struct Remembered {
  std::uint64_t action, address, size, stream;
  std::int64_t time_us;
};

bool g_is_mute = false;  // if true, trackers and gauges are not updated

struct Device {
  explicit Device(int index)
      : index(index),
        heap([this](fake::What what, std::uint64_t address, std::uint64_t size,
                    std::uint64_t stream) { emit(action_of(what), address, size, stream); },
             [](fake::Gauge gauge, std::uint64_t value) { move(gauge, value); }) {}

  static TraceEntry::Action action_of(fake::What what) {
    constexpr std::array kActions{TraceEntry::ALLOC, TraceEntry::FREE_REQUESTED,
                                  TraceEntry::FREE_COMPLETED, TraceEntry::SEGMENT_ALLOC,
                                  TraceEntry::SEGMENT_FREE};
    return kActions[static_cast<std::size_t>(what)];
  }
  // torch reports every device's snapshot as if it were for device 0.
  void report_snapshot() {
    const TraceEntry entry(TraceEntry::SNAPSHOT, 0, heap.allocated, 0, nullptr, {0, 0}, 0);
    for (const auto& tracker : trackers) tracker(entry);
  }
  void emit(TraceEntry::Action action, std::uint64_t address, std::uint64_t size,
            std::uint64_t stream) {
    if (g_is_mute) return;
    const TraceEntry entry(action, static_cast<c10::DeviceIndex>(index), address, size,
                           reinterpret_cast<void*>(stream), {0, 0}, 0);
    for (const auto& tracker : trackers) tracker(entry);
    if (!remembers) return;
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    history.push_back({static_cast<std::uint64_t>(action), address, size, stream,
                       std::chrono::duration_cast<std::chrono::microseconds>(since).count()});
  }
  static void move(fake::Gauge gauge, std::uint64_t value) {
    if (g_is_mute) return;
    const auto reported = static_cast<std::int64_t>(value);
    if (gauge == fake::Gauge::kAllocated) {
      STATIC_GAUGE(pytorch.CUDACachingAllocator.allocated_bytes).record(reported);
    } else {
      STATIC_GAUGE(pytorch.CUDACachingAllocator.reserved_bytes).record(reported);
    }
  }

  // The memory of the driver, and the limit of the process.
  void set_bytes(std::uint64_t all, double share) {
    total = all;
    fraction = share;
    heap.limit = static_cast<std::uint64_t>(static_cast<double>(all) * share);
  }

  int index;
  std::uint64_t total = kDeviceBytes;
  double fraction = 1;
  std::recursive_mutex mutex;
  fake::Heap heap;
  std::vector<c10::CachingDeviceAllocator::AllocatorTraceTracker> trackers;
  std::vector<torch_cuda::OutOfMemoryObserver> observers;
  bool remembers = false;
  std::vector<Remembered> history;
};

thread_local int t_device = 0;
thread_local std::uint64_t t_stream = 0;

class FakeAllocator final : public torch_cuda::CUDAAllocator {
 public:
  std::string backend = "native";
  std::string conf;  // PYTORCH_CUDA_ALLOC_CONF
  std::atomic<bool> is_initialized{std::getenv("FAKE_CUDA_IS_LATE") == nullptr};
  std::array<std::unique_ptr<Device>, kDevices> devices{std::make_unique<Device>(0),
                                                        std::make_unique<Device>(1)};

  void* take(int index, std::size_t size, std::uint64_t stream) {
    Device& device = *devices.at(static_cast<std::size_t>(index));
    std::unique_lock lock(device.mutex);
    const std::uint64_t address = device.heap.alloc(size, stream);
    if (address != 0) return reinterpret_cast<void*>(address);
    const std::uint64_t free_bytes = device.total - device.heap.reserved;
    device.emit(TraceEntry::OOM, free_bytes, fake::Heap::rounded(size), stream);
    const auto observers = device.observers;
    lock.unlock();
    for (const auto& observer : observers) {
      observer(index, fake::Heap::segment_bytes(fake::Heap::rounded(size)), device.heap.limit,
               free_bytes);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", size,
                     " bytes.");
  }
  Device& owner(void* pointer) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    for (const auto& device : devices) {
      const std::lock_guard lock(device->mutex);
      if (device->heap.blocks.count(address) != 0) return *device;
    }
    std::abort();
  }
  void give_back(void* pointer) {
    if (pointer == nullptr) return;
    Device& device = owner(pointer);
    const std::lock_guard lock(device.mutex);
    device.heap.free(reinterpret_cast<std::uintptr_t>(pointer));
  }

  // ---- c10::Allocator --------------------------------------------------------------------------
  c10::DataPtr allocate(std::size_t size) override {
    void* data = size == 0 ? nullptr : take(t_device, size, t_stream);
    return {data, data, &torch_cuda::raw_delete,
            c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(t_device))};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &torch_cuda::raw_delete; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  // ---- c10::DeviceAllocator --------------------------------------------------------------------
  bool initialized() override { return is_initialized; }
  void emptyCache(c10::MempoolId_t) override {
    for (const auto& device : devices) {
      const std::lock_guard lock(device->mutex);
      device->heap.empty_cache();
    }
  }
  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream) override {
    Device& device = owner(data.get());
    device.heap.blocks.at(reinterpret_cast<std::uintptr_t>(data.get())).is_used_elsewhere = true;
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    Device& device = *devices.at(static_cast<std::size_t>(index));
    const std::lock_guard lock(device.mutex);
    stats.allocated_bytes[0].current = static_cast<std::int64_t>(device.heap.allocated);
    stats.reserved_bytes[0].current = static_cast<std::int64_t>(device.heap.reserved);
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const Device& device = *devices.at(static_cast<std::size_t>(index));
    return {device.total - device.heap.reserved, device.total};
  }

  // ---- CUDAAllocator ---------------------------------------------------------------------------
  void* raw_alloc(std::size_t size) override { return take(t_device, size, t_stream); }
  void* raw_alloc_with_stream(std::size_t size, cudaStream_t stream) override {
    return take(t_device, size, reinterpret_cast<std::uintptr_t>(stream));
  }
  void raw_delete(void* pointer) override { give_back(pointer); }
  void init(int) override {}
  double getMemoryFraction(c10::DeviceIndex) override { return 1; }
  void setMemoryFraction(double, c10::DeviceIndex) override {}
  std::vector<torch_cuda::StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex) override {
    return {};
  }
  void enable(bool) override {}
  bool isEnabled() const override { return true; }
  void cacheInfo(c10::DeviceIndex, std::size_t*) override {}
  void* getBaseAllocation(void* pointer, std::size_t*) override { return pointer; }
  torch_cuda::SnapshotInfo snapshot(c10::MempoolId_t, bool) override {
    torch_cuda::SnapshotInfo info;
    info.config_metadata.max_split_size = ~std::size_t{0};
    info.config_metadata.expandable_segments =
        conf.find("expandable_segments:True") != std::string::npos;
    info.config_metadata.last_allocator_settings = conf;
    info.config_metadata.roundup_power2_divisions.assign(16, 0);
    for (const auto& device : devices) {
      const std::lock_guard lock(device->mutex);
      for (const auto& [at, segment] : device->heap.segments) {
        info.segments.push_back(seen(*device, at, segment));
      }
      device->report_snapshot();
    }
    if (after_snapshot) after_snapshot();
    return info;
  }
  void beginAllocateToPool(c10::DeviceIndex, c10::MempoolId_t,
                           std::function<bool(cudaStream_t)>) override {}
  void endAllocateToPool(c10::DeviceIndex, c10::MempoolId_t) override {}
  void releasePool(c10::DeviceIndex, c10::MempoolId_t) override {}
  torch_cuda::ShareableHandle shareIpcHandle(void*) override { return {}; }
  std::shared_ptr<void> getIpcDevPtr(std::string) override { return nullptr; }
  void recordHistory(bool, torch_cuda::CreateContextFn, std::size_t, torch_cuda::RecordContext,
                     bool, const std::vector<std::string>&) override {}
  void attachOutOfMemoryObserver(torch_cuda::OutOfMemoryObserver observer) override {
    for (const auto& device : devices) device->observers.push_back(observer);
  }
  void attachOomRejectionObserver(torch_cuda::OomRejectionObserver) override {}
  void attachAllocatorTraceTracker(torch_cuda::AllocatorTraceTracker tracker) override {
    for (const auto& device : devices) {
      const std::lock_guard lock(device->mutex);
      device->trackers.push_back(tracker);
    }
  }
  void enablePeerAccess(c10::DeviceIndex, c10::DeviceIndex) override {}
  cudaError_t memcpyAsync(void*, int, const void*, int, std::size_t, cudaStream_t, bool) override {
    return cudaSuccess;
  }
  std::shared_ptr<torch_cuda::AllocatorState> getCheckpointState(c10::DeviceIndex,
                                                                 c10::MempoolId_t) override {
    return nullptr;
  }
  torch_cuda::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex, std::shared_ptr<torch_cuda::AllocatorState>) override {
    return {};
  }
  std::string name() override { return backend; }

  std::function<void()> after_snapshot;  // what other threads do immediately afterwards

 private:
  static torch_cuda::SegmentInfo seen(const Device& device, std::uint64_t at,
                                      const fake::Segment& segment) {
    torch_cuda::SegmentInfo info;
    info.device = static_cast<c10::DeviceIndex>(device.index);
    info.address = at;
    info.total_size = segment.size;
    info.stream = reinterpret_cast<void*>(segment.stream);
    info.is_large = !segment.is_small;
    const auto& blocks = device.heap.blocks;
    for (auto block = blocks.find(at); block != blocks.end() && block->second.segment == at;
         ++block) {
      torch_cuda::BlockInfo reported;
      reported.size = block->second.size;
      reported.requested_size = block->second.requested;
      reported.allocated = block->second.is_allocated;
      reported.active = block->second.is_active;
      info.blocks.push_back(reported);
    }
    return info;
  }
};

FakeAllocator& fake_allocator() {
  static auto* allocator = new FakeAllocator;
  return *allocator;
}
Device& device_at(int device) {
  return *fake_allocator().devices.at(static_cast<std::size_t>(device));
}
fake::Heap& heap(int device) { return device_at(device).heap; }

}  // namespace

namespace c10::cuda::CUDACachingAllocator {
std::atomic<CUDAAllocator*> allocator{&fake_allocator()};
}  // namespace c10::cuda::CUDACachingAllocator

// ---- what tests call
// -----------------------------------------------------------------------------

#define FAKE_API extern "C" __attribute__((visibility("default")))

// Returns 0 if memory runs out, after notifying the observers.
FAKE_API std::uint64_t fake_alloc(int device, std::uint64_t size, std::uint64_t stream) {
  try {
    return reinterpret_cast<std::uintptr_t>(fake_allocator().take(device, size, stream));
  } catch (const c10::OutOfMemoryError&) {
    return 0;
  }
}
FAKE_API void fake_free(std::uint64_t address) {
  fake_allocator().give_back(reinterpret_cast<void*>(address));
}
FAKE_API void fake_record_stream(int device, std::uint64_t address) {
  heap(device).blocks.at(address).is_used_elsewhere = true;
}
FAKE_API void fake_complete_all(int device) { heap(device).complete_all(); }
// Frees all blocks and their memory.
FAKE_API void fake_reset() {
  for (const auto& device : fake_allocator().devices) {
    const std::lock_guard lock(device->mutex);
    device->heap.free_all();
    device->heap.empty_cache();
    device->set_bytes(kDeviceBytes, 1);
  }
}
FAKE_API void fake_empty_cache() { fake_allocator().emptyCache({0, 0}); }
// The total memory of the device.
FAKE_API void fake_set_limit(int device, std::uint64_t bytes) {
  device_at(device).set_bytes(bytes, device_at(device).fraction);
}
FAKE_API std::uint64_t fake_total(int device) { return device_at(device).total; }
FAKE_API void fake_set_fraction(int device, double fraction) {
  device_at(device).set_bytes(device_at(device).total, fraction);
}
FAKE_API void fake_set_conf(const char* text) { fake_allocator().conf = text; }
// Makes the next block larger than torch's rules say.
FAKE_API void fake_enlarge_next(int device, std::uint64_t bytes) { heap(device).extra = bytes; }
FAKE_API std::uint64_t fake_allocated(int device) { return heap(device).allocated; }
FAKE_API std::uint64_t fake_reserved(int device) { return heap(device).reserved; }
// Simulates a change that torch does not report.
FAKE_API void fake_mute(int is_mute) { g_is_mute = is_mute != 0; }
FAKE_API void fake_set_backend(const char* name) { fake_allocator().backend = name; }
// With FAKE_CUDA_IS_LATE: makes the program use CUDA for the first time.
FAKE_API void fake_initialize() { fake_allocator().is_initialized = true; }
FAKE_API void fake_set_device(int device) { t_device = device; }
FAKE_API int fake_get_device() { return t_device; }
FAKE_API int fake_exchange_device(int device) {
  return device < 0 ? t_device : std::exchange(t_device, device);
}
// Sets the value for this thread; returns the previous one.
FAKE_API std::uint64_t fake_set_stream(std::uint64_t stream) {
  return std::exchange(t_stream, stream);
}
// Called between a snapshot and its return to the caller.
FAKE_API void fake_after_snapshot(void (*what)()) {
  fake_allocator().after_snapshot = what == nullptr ? std::function<void()>{} : what;
}

// ---- torch's own history
// -------------------------------------------------------------------------

FAKE_API void fake_remember(int is_wanted) {
  for (const auto& device : fake_allocator().devices) {
    const std::lock_guard lock(device->mutex);
    device->remembers = is_wanted != 0;
    if (is_wanted == 0) device->history.clear();
  }
}
// Copies the first `capacity` entries and returns their total number.
FAKE_API std::uint64_t fake_history(int index, Remembered* rows, std::uint64_t capacity) {
  Device& device = *fake_allocator().devices.at(static_cast<std::size_t>(index));
  const std::lock_guard lock(device.mutex);
  const std::vector<Remembered>& all = device.history;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(capacity, all.size()); ++i)
    rows[i] = all[i];
  return all.size();
}
// Segments and their blocks, one row each: segment's address, own address, size, requested, state.
// The state is 3 for a segment, else 0 inactive, 1 waiting for a stream, 2 allocated.
FAKE_API std::uint64_t fake_heap(int index, std::uint64_t (*rows)[5], std::uint64_t capacity) {
  Device& device = *fake_allocator().devices.at(static_cast<std::size_t>(index));
  const std::lock_guard lock(device.mutex);
  std::uint64_t count = 0;
  const auto put = [&](std::uint64_t segment, std::uint64_t address, std::uint64_t size,
                       std::uint64_t requested, std::uint64_t state) {
    if (count < capacity) {
      const std::uint64_t row[5] = {segment, address, size, requested, state};
      std::copy(row, row + 5, rows[count]);
    }
    ++count;
  };
  for (const auto& [at, segment] : device.heap.segments) {
    put(at, at, segment.size, segment.is_small ? 1 : 0, 3);
    for (auto block = device.heap.blocks.find(at);
         block != device.heap.blocks.end() && block->second.segment == at; ++block) {
      const std::uint64_t state = block->second.is_allocated ? 2 : block->second.is_active ? 1 : 0;
      put(at, block->first, block->second.size, block->second.requested, state);
    }
  }
  return count;
}
FAKE_API void fake_observe(void (*observe)(std::int64_t, std::int64_t, std::int64_t,
                                           std::int64_t)) {
  fake_allocator().attachOutOfMemoryObserver(
      [observe](std::int64_t device, std::size_t asked, std::size_t limit, std::size_t free) {
        observe(device, static_cast<std::int64_t>(asked), static_cast<std::int64_t>(limit),
                static_cast<std::int64_t>(free));
      });
}
