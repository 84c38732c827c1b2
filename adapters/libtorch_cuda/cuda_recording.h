// All devices of the process while they are recorded: finds the tracker of an event, and the event
// that a gauge value belongs to.
//
// torch has one gauge for all devices. It updates it on the allocating thread, under the device's
// lock: after the event of an allocation and of a freed segment, and before all other events. So
// the value belongs to the adjacent event of the same thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "device_tracker.h"

namespace plimsoll::libtorch_cuda {

enum class Gauge : std::uint8_t { kAllocated, kReserved };

class CudaRecording {
 public:
  static constexpr int kMaxDevices = 64;

  CudaRecording() = default;
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;
  ~CudaRecording();  // only in tests: the process's own is never destroyed

  // Creates trackers for devices 0 to device_count - 1, unless they exist for this recorder
  // already.
  void prepare(const plimsoll_recorder_api& api, int device_count, DescribeAllocation describe);
  int device_count() const { return device_count_.load(std::memory_order_relaxed); }
  DeviceTracker* tracker(int ordinal) const;

  // Records events from here on. Each tracker still waits for its snapshot.
  void start();
  void stop();
  // Call these before and after a snapshot, on the thread that takes it: torch reports one snapshot
  // event per device, each as if for device 0.
  void begin_snapshot();
  void end_snapshot();
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  void leave_to_parent() { is_on_.store(false, std::memory_order_relaxed); }  // in a forked child

  // torch calls these on any thread, under the device's lock.
  void handle(int ordinal, const AllocatorEvent& event) noexcept;
  void gauge_moved(Gauge gauge, std::int64_t value) noexcept;

  // Called on the failing thread, with no lock held, after the event of the failed request. Only
  // that event has the requested bytes: torch passes the size of the segment that it would have
  // allocated.
  Failure out_of_memory(int ordinal, Failure failure) noexcept;

 private:
  const plimsoll_recorder_api* api_ = nullptr;
  DescribeAllocation describe_ = nullptr;
  std::atomic<bool> is_on_{false};
  std::atomic<int> device_count_{0};
  // Trackers are never destroyed: a thread may be inside one while another thread detaches.
  std::array<std::atomic<DeviceTracker*>, kMaxDevices> trackers_{};
};

CudaRecording& cuda_recording();

}  // namespace plimsoll::libtorch_cuda
