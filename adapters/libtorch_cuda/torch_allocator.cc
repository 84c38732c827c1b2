#include "torch_allocator.h"

#include <c10/cuda/CUDACachingAllocator.h>
#if __has_include(<c10/util/Gauge.h>)
#include <c10/util/Gauge.h>
#define PLIMSOLL_HAS_GAUGES 1
#endif

#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "cuda_recording.h"
#include "library_workspaces.h"

namespace plimsoll::libtorch_cuda {
namespace {

namespace torch_cuda = c10::cuda::CUDACachingAllocator;
using torch_cuda::TraceEntry;

// Streams are pointers, of one type up to torch 2.10 and of another since.
template <typename Stream>
std::uint64_t number_of(Stream* stream) {
  return reinterpret_cast<std::uintptr_t>(stream);
}

template <typename Pool>
HeapPool pool_from(const Pool& pool) {
  return {.first = pool.first, .second = pool.second};
}

// ---- events -----------------------------------------------------------------------------------

Action action_of(TraceEntry::Action action) {
  switch (action) {
    case TraceEntry::ALLOC:
      return Action::kAlloc;
    case TraceEntry::FREE_REQUESTED:
      return Action::kFreeRequested;
    case TraceEntry::FREE_COMPLETED:
      return Action::kFreeCompleted;
    case TraceEntry::SEGMENT_ALLOC:
      return Action::kSegmentAlloc;
    case TraceEntry::SEGMENT_FREE:
      return Action::kSegmentFree;
    case TraceEntry::SEGMENT_MAP:
      return Action::kSegmentMap;
    case TraceEntry::SEGMENT_UNMAP:
      return Action::kSegmentUnmap;
    case TraceEntry::SNAPSHOT:
      return Action::kSnapshot;
    case TraceEntry::OOM:
      return Action::kOutOfMemory;
    default:
      return Action::kOther;
  }
}

// mempool_ came with torch 2.8.
template <typename Entry>
AllocatorEvent event_from(const Entry& entry) {
  AllocatorEvent event{.action = action_of(entry.action_),
                       .address = static_cast<std::uint64_t>(entry.addr_),
                       .size_bytes = static_cast<std::uint64_t>(entry.size_),
                       .stream = number_of(entry.stream_),
                       .pool = {},
                       .library = Library::kNone};
  if constexpr (requires { entry.mempool_; }) event.pool = pool_from(entry.mempool_);
  return event;
}

void trace_entry_made(const TraceEntry& entry) {
  if (!cuda_recording().is_on()) return;
  AllocatorEvent event = event_from(entry);
  if (event.action == Action::kAlloc) {
    event.library = library_workspaces().of_caller(__builtin_frame_address(0));
  }
  cuda_recording().handle(static_cast<int>(entry.device_), event);
}

// ---- gauges -----------------------------------------------------------------------------------

#ifdef PLIMSOLL_HAS_GAUGES
class GaugeBackend final : public c10::monitor::detail::GaugeBackendIf {
 public:
  explicit GaugeBackend(Gauge gauge) : gauge_(gauge) {}
  void record(std::int64_t value) noexcept override {
    if (cuda_recording().is_on()) cuda_recording().gauge_moved(gauge_, value);
  }

 private:
  Gauge gauge_;
};

class GaugeFactory final : public c10::monitor::detail::GaugeBackendFactoryIf {
 public:
  std::unique_ptr<c10::monitor::detail::GaugeBackendIf> create(
      std::string_view key) noexcept override {
    if (key == "pytorch.CUDACachingAllocator.allocated_bytes") {
      return std::make_unique<GaugeBackend>(Gauge::kAllocated);
    }
    if (key == "pytorch.CUDACachingAllocator.reserved_bytes") {
      return std::make_unique<GaugeBackend>(Gauge::kReserved);
    }
    return nullptr;
  }
};

void register_gauges() {
  c10::monitor::detail::registerGaugeBackend(std::make_unique<GaugeFactory>());
}
#else
void register_gauges() {}
#endif

// ---- out of memory ----------------------------------------------------------------------------

std::atomic<OutOfMemoryCallback> g_out_of_memory{nullptr};

// The driver's total; 0 if this torch (before 2.9) does not publish it.
template <typename Allocator>
std::uint64_t device_bytes(int device, Allocator& allocator) {
  if constexpr (requires { allocator.getMemoryInfo(c10::DeviceIndex{0}); }) {
    try {
      return allocator.getMemoryInfo(static_cast<c10::DeviceIndex>(device)).second;
    } catch (const std::exception&) {
      return 0;
    }
  }
  return 0;
}

void ran_out_of_memory(int device, std::uint64_t segment_bytes, std::uint64_t limit_bytes,
                       std::uint64_t free_bytes) {
  if (!cuda_recording().is_on()) return;
  const std::uint64_t total_bytes = device_bytes(device, *torch_cuda::get());
  const Failure failure = cuda_recording().out_of_memory(
      device, {0, segment_bytes, free_bytes, limit_bytes, total_bytes});
  if (const OutOfMemoryCallback callback = g_out_of_memory.load(std::memory_order_acquire)) {
    callback(device, failure);
  }
}

// ---- snapshots --------------------------------------------------------------------------------

// Since torch 2.11 the history, which may be gigabytes, can be left out.
template <typename Allocator>
auto snapshot_of(Allocator& allocator) {
  if constexpr (requires { allocator.snapshot({0, 0}, false); }) {
    return allocator.snapshot({0, 0}, false);
  } else {
    return allocator.snapshot();
  }
}

HeapSettings settings_from(const torch_cuda::AllocatorConfigInfo& config) {
  HeapSettings settings;
  settings.max_split_bytes = config.max_split_size;
  settings.has_expandable_segments = config.expandable_segments;
  settings.large_segment_bytes = large_segment_bytes_of(config.last_allocator_settings);
  auto& divisions = settings.roundup_power2_divisions;
  for (std::size_t i = 0; i < divisions.size() && i < config.roundup_power2_divisions.size(); ++i) {
    divisions[i] = static_cast<std::uint32_t>(config.roundup_power2_divisions[i]);
  }
  return settings;
}

// The settings by their names in torch's snapshots. Names and types of the fields have changed
// between torch's versions.
template <typename Config>
std::vector<SeenSetting> settings_reported(const Config& config) {
  std::vector<SeenSetting> all;
  const auto integer = [](auto value) { return static_cast<std::int64_t>(value); };
  all.push_back({"PYTORCH_CUDA_ALLOC_CONF", config.last_allocator_settings});
  all.push_back({"max_split_size", integer(config.max_split_size)});  // unlimited: -1
  all.push_back({"garbage_collection_threshold", config.garbage_collection_threshold});
  all.push_back({"expandable_segments", config.expandable_segments});
  if constexpr (requires { config.pinned_num_register_threads; }) {
    all.push_back({"pinned_num_register_threads", integer(config.pinned_num_register_threads)});
  }
  if constexpr (requires { config.release_lock_on_malloc; }) {
    all.push_back({"release_lock_on_cudamalloc", config.release_lock_on_malloc});
  }
  if constexpr (requires { config.pinned_use_host_register; }) {
    all.push_back({"pinned_use_cuda_host_register", config.pinned_use_host_register});
  }
  if constexpr (requires { config.graph_capture_record_stream_reuse; }) {
    all.push_back({"graph_capture_record_stream_reuse", config.graph_capture_record_stream_reuse});
  }
  std::uint64_t power = 1;
  for (const auto divisions : config.roundup_power2_divisions) {
    const std::string name = "roundup_power2_divisions." + std::to_string(power);
    all.push_back({name, integer(divisions)});
    power *= 2;
  }
  return all;
}

SeenSegment segment_from(const torch_cuda::SegmentInfo& segment) {
  SeenSegment seen{.address = static_cast<std::uint64_t>(segment.address),
                   .size_bytes = static_cast<std::uint64_t>(segment.total_size),
                   .stream = number_of(segment.stream),
                   .pool = pool_from(segment.owner_private_pool_id),
                   .is_expandable = segment.is_expandable,
                   .blocks = {}};
  std::uint64_t address = seen.address;
  for (const torch_cuda::BlockInfo& block : segment.blocks) {
    const BlockState state = block.allocated ? BlockState::kAllocated
                             : block.active  ? BlockState::kPendingFree
                                             : BlockState::kInactive;
    const auto size_bytes = static_cast<std::uint64_t>(block.size);
    seen.blocks.push_back({.address = address,
                           .size_bytes = size_bytes,
                           .requested_bytes = static_cast<std::uint64_t>(block.requested_size),
                           .state = state});
    address += size_bytes;
  }
  return seen;
}

}  // namespace

const char* allocator_problem() {
  torch_cuda::CUDAAllocator* allocator = torch_cuda::get();
  if (allocator == nullptr) return "torch has no CUDA allocator";
  const std::string name = allocator->name();
  if (name == "cudaMallocAsync") {
    return "torch uses the allocator cudaMallocAsync, which reports no events";
  }
  if (name != "native") return "the program has replaced torch's CUDA allocator";
  const char* is_off = std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
  if (is_off != nullptr && std::string_view(is_off) == "1") {  // as torch reads it
    return "PYTORCH_NO_CUDA_MEMORY_CACHING is set, and without its cache torch's allocator reports "
           "no events";
  }
  return nullptr;
}

void attach_to_allocator() {
  static bool is_attached = false;
  if (is_attached) return;
  is_attached = true;
  // The object's first word is the address of its virtual table, in the allocator's library.
  library_workspaces().begin(*reinterpret_cast<void* const*>(torch_cuda::get()));
  register_gauges();
  torch_cuda::get()->attachAllocatorTraceTracker(&trace_entry_made);
  torch_cuda::get()->attachOutOfMemoryObserver(
      [](auto device, auto segment, auto limit, auto free) {
        ran_out_of_memory(static_cast<int>(device), static_cast<std::uint64_t>(segment),
                          static_cast<std::uint64_t>(limit), static_cast<std::uint64_t>(free));
      });
}

void set_out_of_memory_callback(OutOfMemoryCallback callback) {
  g_out_of_memory.store(callback, std::memory_order_release);  // pairs with ran_out_of_memory()
}

SeenAllocator see_allocator(int device_count) {
  const torch_cuda::SnapshotInfo snapshot = snapshot_of(*torch_cuda::get());
  SeenAllocator seen{.devices = {}, .settings = settings_reported(snapshot.config_metadata)};
  std::vector<SeenDevice>& devices = seen.devices;
  devices.resize(static_cast<std::size_t>(device_count));
  for (SeenDevice& device : devices) device.settings = settings_from(snapshot.config_metadata);
  for (const torch_cuda::SegmentInfo& segment : snapshot.segments) {
    const auto device = static_cast<std::size_t>(segment.device);
    if (device < devices.size()) devices[device].segments.push_back(segment_from(segment));
  }
  return seen;
}

DeviceTotals totals_of(int device) {
  const auto stats = torch_cuda::get()->getDeviceStats(static_cast<c10::DeviceIndex>(device));
  constexpr std::size_t kAggregate = 0;  // StatType::AGGREGATE, which has moved between namespaces
  return {.allocated_bytes = static_cast<std::uint64_t>(stats.allocated_bytes[kAggregate].current),
          .reserved_bytes = static_cast<std::uint64_t>(stats.reserved_bytes[kAggregate].current)};
}

}  // namespace plimsoll::libtorch_cuda
