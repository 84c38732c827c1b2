#include "cuda_recording.h"

#include <algorithm>
#include <utility>

namespace plimsoll::libtorch_cuda {
namespace {

// This thread's last event, and the gauge values around it.
struct Pairing {
  DeviceTracker* reported = nullptr;  // of the last event, if its gauge value is still to come
  Gauge follows = Gauge::kAllocated;
  bool has_allocated = false;  // a value whose event is still to come
  bool has_reserved = false;
  std::uint64_t allocated = 0;
  std::uint64_t reserved = 0;
  AllocatorEvent failed;  // the request that ran out of memory
};
thread_local Pairing t_pairing [[gnu::tls_model("initial-exec")]];

constexpr int kNoSnapshot = -1;
thread_local int t_seen [[gnu::tls_model("initial-exec")]] =
    kNoSnapshot;  // number of devices that this thread's snapshot has reported

void pair(Pairing& pairing, DeviceTracker& tracker, const AllocatorEvent& event) {
  pairing.reported = nullptr;
  switch (event.action) {
    case Action::kAlloc:
      pairing.reported = &tracker;
      pairing.follows = Gauge::kAllocated;
      break;
    case Action::kFreeRequested:
      if (pairing.has_allocated) tracker.prove_allocated(pairing.allocated);
      break;
    case Action::kSegmentAlloc:
    case Action::kSegmentMap:
    case Action::kSegmentUnmap:
      if (pairing.has_reserved) tracker.prove_reserved(pairing.reserved);
      break;
    case Action::kSegmentFree:
      pairing.reported = &tracker;
      pairing.follows = Gauge::kReserved;
      break;
    case Action::kOutOfMemory:
      pairing.failed = event;
      break;
    default:
      break;
  }
  pairing.has_allocated = pairing.has_reserved = false;
}

}  // namespace

CudaRecording::~CudaRecording() {
  for (const auto& each : trackers_) delete each.load(std::memory_order_relaxed);
}

void CudaRecording::prepare(const plimsoll_recorder_api& api, int device_count,
                            DescribeAllocation describe) {
  const int wanted = std::min(device_count, kMaxDevices);
  const bool is_same = api_ == &api && describe_ == describe;
  api_ = &api;
  describe_ = describe;
  for (int i = 0; i < wanted; ++i) {
    if (is_same && tracker(i) != nullptr) continue;
    trackers_[static_cast<std::size_t>(i)].store(
        new DeviceTracker(api, api.device(PLIMSOLL_DEVICE_CUDA, i), describe),
        std::memory_order_release);  // pairs with tracker()
  }
  device_count_.store(wanted, std::memory_order_relaxed);
}

DeviceTracker* CudaRecording::tracker(int ordinal) const {
  if (ordinal < 0 || ordinal >= kMaxDevices) return nullptr;
  // Pairs with prepare().
  return trackers_[static_cast<std::size_t>(ordinal)].load(std::memory_order_acquire);
}

void CudaRecording::start() {
  for (int i = 0; i < device_count(); ++i) tracker(i)->await_snapshot();
  is_on_.store(true, std::memory_order_release);
}

void CudaRecording::stop() {
  is_on_.store(false, std::memory_order_release);
  for (int i = 0; i < device_count(); ++i) tracker(i)->stop();
}

void CudaRecording::begin_snapshot() { t_seen = 0; }
void CudaRecording::end_snapshot() { t_seen = kNoSnapshot; }

void CudaRecording::handle(int ordinal, const AllocatorEvent& event) noexcept {
  if (event.action == Action::kSnapshot) {
    if (t_seen == kNoSnapshot) return;  // the program's own snapshot
    ordinal = t_seen++;
  }
  DeviceTracker* each = tracker(ordinal);
  if (each == nullptr) return;
  each->handle(event);
  pair(t_pairing, *each, event);
}

void CudaRecording::gauge_moved(Gauge gauge, std::int64_t value) noexcept {
  Pairing& pairing = t_pairing;
  const auto bytes = static_cast<std::uint64_t>(value);
  DeviceTracker* reported = pairing.reported;
  if (gauge == Gauge::kAllocated) {
    if (reported != nullptr && pairing.follows == Gauge::kAllocated) {
      pairing.reported = nullptr;
      reported->prove_allocated(bytes);
      return;
    }
    pairing.has_allocated = true;
    pairing.allocated = bytes;
    return;
  }
  // A value that does not fit the released segment may belong to an event that is still to come.
  if (reported != nullptr && pairing.follows == Gauge::kReserved && reported->has_reserved(bytes)) {
    pairing.reported = nullptr;
    reported->prove_reserved(bytes);
    return;
  }
  pairing.has_reserved = true;
  pairing.reserved = bytes;
}

Failure CudaRecording::out_of_memory(int ordinal, Failure failure) noexcept {
  DeviceTracker* each = tracker(ordinal);
  const AllocatorEvent failed = std::exchange(t_pairing.failed, {});
  failure.requested_bytes = failed.size_bytes != 0 ? failed.size_bytes : failure.segment_bytes;
  if (each == nullptr) return failure;
  plimsoll_context before;
  plimsoll_context* context = describe_(&before);
  const plimsoll_block request{.address = 0,
                               .requested_bytes = failure.requested_bytes,
                               .size_bytes = failure.requested_bytes,
                               .stream = failed.stream,
                               .pool = each->name_of(failed.pool),
                               .reserved = 0};
  api_->out_of_memory(context, each->device(), &request, failure.free_bytes, failure.limit_bytes,
                      failure.total_bytes);
  *context = before;
  return failure;
}

CudaRecording& cuda_recording() {
  static auto* recording = new CudaRecording;  // threads may allocate until the end
  return *recording;
}

}  // namespace plimsoll::libtorch_cuda
