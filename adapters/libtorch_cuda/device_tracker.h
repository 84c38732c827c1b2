// One device: translates its allocator's events into calls of the recorder.
//
// The allocator reports a block's requested bytes, not its size. The size comes from the shadow
// heap and is verified against the allocator's own gauges, which it updates right before or after
// each event. A block that the gauge shows to have another size is corrected immediately; if that
// is impossible, or an event does not fit the heap, the device is compared with a snapshot at the
// next opportunity.
//
// A snapshot is taken without our lock, while other threads continue to allocate. The allocator
// reports between which of its events the snapshot was made (kSnapshot): later events are queued
// until the snapshot has been read, and earlier ones are part of it.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "allocator_event.h"
#include "plimsoll/recorder_c.h"
#include "shadow_heap.h"

namespace plimsoll::libtorch_cuda {

// Fills in this thread's context for an allocation that happens now, and sets `before` to the
// context to restore afterwards. Takes no lock that a thread with the GIL or the allocator's lock
// waits for.
using DescribeAllocation = plimsoll_context* (*)(plimsoll_context* before);

struct TrackerCounts {
  std::uint64_t events = 0;
  std::uint64_t allocs = 0;     // allocations among the events
  std::uint64_t proofs = 0;     // gauge values that agreed with the shadow heap
  std::uint64_t corrected = 0;  // blocks whose size the gauge corrected
  std::uint64_t disproved = 0;  // gauge values that no single block explains
  std::uint64_t seeded = 0;     // number of comparisons with a snapshot
};

class DeviceTracker {
 public:
  DeviceTracker(const plimsoll_recorder_api& api, std::uint8_t device, DescribeAllocation describe);

  // ---- by the thread that attaches ------------------------------------------------------------
  // Between this call and seed(), this thread takes a snapshot.
  void await_snapshot();
  void seed(const SeenDevice& seen);
  void stop();

  // ---- by any thread, with the allocator's lock of the device held -----------------------------
  void handle(const AllocatorEvent& event) noexcept;
  // Compares our sum with the gauge's value after the last event, or before the next one.
  void prove_allocated(std::uint64_t bytes) noexcept;
  void prove_reserved(std::uint64_t bytes) noexcept;
  bool has_reserved(std::uint64_t bytes) const noexcept;

  // ---- by any thread ---------------------------------------------------------------------------
  bool needs_seed() const;
  std::uint32_t name_of(const HeapPool& pool);
  TrackerCounts counts() const;
  // Reports that our sums differ from the allocator's although no event came in between.
  void differs();
  // Reports the state of the sizes as notices; each doubt is reported when it arises.
  void report_unverified();
  std::pair<std::uint64_t, std::uint64_t> allocated_and_reserved_bytes() const;
  std::uint8_t device() const { return device_; }

 private:
  enum class State : std::uint8_t { kOff, kAwaitsSnapshot, kHoldsEvents, kLive };
  struct LiveAllocation {
    AllocatorEvent event;
    plimsoll_context context;
  };
  class Batches;
  struct PoolName {
    HeapPool pool;
    std::uint32_t name = 0;
  };

  void handle(plimsoll_context* context, const AllocatorEvent& event);
  void hold(const plimsoll_context& context, const AllocatorEvent& event);
  void emit(plimsoll_context* context, const AllocatorEvent& event);
  void report_alloc(plimsoll_context* context, const AllocatorEvent& event);
  void report_last(plimsoll_context* context);
  void report_segment(plimsoll_context* context, const AllocatorEvent& event);
  void report_difference(plimsoll_context* context, const SeenDevice& seen, Batches& batches);
  // Reports the queued event at this position. Returns false at the end of the queue; the device is
  // then live.
  bool report_held(plimsoll_context* context, std::size_t at);
  std::uint32_t pool_name(const HeapPool& pool);
  void doubt();
  void stray(std::uint64_t address, std::uint64_t size_bytes);

  const plimsoll_recorder_api& api_;
  const std::uint8_t device_;
  const DescribeAllocation describe_;

  // A leaf lock: its holder calls the recorder and nothing else.
  mutable std::mutex mutex_;
  State state_ = State::kOff;
  bool needs_seed_ = false;
  std::thread::id seeder_;
  ShadowHeap heap_;
  // Blocks that were reported but are not in the heap: the device's state is wrong there.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> strays_;
  std::vector<LiveAllocation> held_;
  std::array<PoolName, 64> pool_names_{};
  std::size_t pool_name_count_ = 0;
  TrackerCounts counts_;
  plimsoll_block last_{};  // the block that the last event allocated; address 0: none
  Library last_library_ = Library::kNone;
  std::array<std::uint32_t, kLibraries> workspaces_{};  // tensor ids by library; 0: not yet known
};

}  // namespace plimsoll::libtorch_cuda
