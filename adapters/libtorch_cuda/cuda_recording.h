// All devices of the process, while they are recorded: finds the tracker of an event, and which
// event a value of a gauge speaks of.
//
// torch has one gauge for all devices. It moves it on the thread that allocates, with the device's
// lock held: after the event of an allocation and of a segment that is given back, before all
// others. So the value belongs to the neighbouring event of the same thread.
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
  ~CudaRecording();  // in tests alone: that of the process is never destroyed

  // Trackers for devices 0 to device_count - 1, made anew unless they are for this recorder
  // already.
  void prepare(const plimsoll_recorder_api& api, int device_count, DescribeAllocation describe);
  int device_count() const { return device_count_.load(std::memory_order_relaxed); }
  DeviceTracker* tracker(int ordinal) const;

  // From here on events count. Each tracker still awaits its snapshot.
  void start();
  void stop();
  // Around a snapshot, on the thread that takes it: torch reports its making device after device,
  // and of each one as if it were device 0.
  void begin_snapshot();
  void end_snapshot();
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  void leave_to_parent() { is_on_.store(false, std::memory_order_relaxed); }  // in a forked child

  // As torch calls us: with the lock of the device held, on any thread.
  void handle(int ordinal, const AllocatorEvent& event) noexcept;
  void gauge_moved(Gauge gauge, std::int64_t value) noexcept;

  // On the failing thread, with no lock held, after the event of the request that could not be met:
  // that alone tells what was asked for. Observers are told of the segment that would have held it.
  Failure out_of_memory(int ordinal, Failure failure) noexcept;

 private:
  const plimsoll_recorder_api* api_ = nullptr;
  DescribeAllocation describe_ = nullptr;
  std::atomic<bool> is_on_{false};
  std::atomic<int> device_count_{0};
  // Trackers live for ever: a thread may be inside one while another thread detaches.
  std::array<std::atomic<DeviceTracker*>, kMaxDevices> trackers_{};
};

CudaRecording& cuda_recording();

}  // namespace plimsoll::libtorch_cuda
