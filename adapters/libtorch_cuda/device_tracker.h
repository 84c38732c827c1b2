// One device: from what its allocator reports to the calls of the recorder.
//
// The allocator reports the requested bytes of a block, not the block's: those come from the shadow
// heap, and the allocator's own gauges, which it moves right before or after each event, prove
// them. A block that the gauge shows to be of another size is corrected immediately; where that
// cannot be, or an event does not fit the heap, the device is compared with a snapshot at the next
// occasion.
//
// A snapshot is taken without our lock, while other threads go on allocating. The allocator says at
// which of its events the snapshot was made (kSnapshot), so events from there on are held until the
// snapshot has been read, and the ones before it are part of it.
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

// Fills in this thread's context what an allocation that happens now belongs to; `before` gets what
// to put back afterwards. Takes no lock that a holder of the GIL or of the allocator's lock waits
// for.
using DescribeAllocation = plimsoll_context* (*)(plimsoll_context* before);

struct TrackerCounts {
  std::uint64_t events = 0;
  std::uint64_t allocs = 0;     // of these
  std::uint64_t proofs = 0;     // gauge values that agreed with the shadow heap
  std::uint64_t corrected = 0;  // blocks whose size the gauge told otherwise
  std::uint64_t disproved = 0;  // gauge values that no single block could explain
  std::uint64_t seeded = 0;     // times the device was compared with a snapshot
};

class DeviceTracker {
 public:
  DeviceTracker(const plimsoll_recorder_api& api, std::uint8_t device, DescribeAllocation describe);

  // ---- by the thread that attaches ------------------------------------------------------------
  // From here to seed(): this thread takes a snapshot.
  void await_snapshot();
  void seed(const SeenDevice& seen);
  void stop();

  // ---- by any thread, with the allocator's lock of the device held -----------------------------
  void handle(const AllocatorEvent& event) noexcept;
  // What the gauges say after the event that was handled last, or before the next one.
  void prove_allocated(std::uint64_t bytes) noexcept;
  void prove_reserved(std::uint64_t bytes) noexcept;
  bool has_reserved(std::uint64_t bytes) const noexcept;

  // ---- by any thread ---------------------------------------------------------------------------
  bool needs_seed() const;
  std::uint32_t name_of(const HeapPool& pool);
  TrackerCounts counts() const;
  // The allocator's own sums are others than ours, and no event can have come between.
  void differs();
  // Notices what there is to say of the sizes so far; each doubt is noticed when it comes.
  void tell_unproved();
  std::pair<std::uint64_t, std::uint64_t> allocated_and_reserved_bytes() const;
  std::uint8_t device() const { return device_; }

 private:
  enum class State : std::uint8_t { kOff, kAwaitsSnapshot, kHoldsEvents, kLive };
  struct Held {
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
  void tell(plimsoll_context* context, const AllocatorEvent& event);
  void tell_alloc(plimsoll_context* context, const AllocatorEvent& event);
  void tell_segment(plimsoll_context* context, const AllocatorEvent& event);
  void tell_difference(plimsoll_context* context, const SeenDevice& seen, Batches& batches);
  // False: there is no more, and the device is live from here on.
  bool tell_held(plimsoll_context* context, std::size_t at);
  std::uint32_t pool_name(const HeapPool& pool);
  void doubt();
  void stray(std::uint64_t address, std::uint64_t size_bytes);

  const plimsoll_recorder_api& api_;
  const std::uint8_t device_;
  const DescribeAllocation describe_;

  // A leaf: whoever holds it calls the recorder and nothing else.
  mutable std::mutex mutex_;
  State state_ = State::kOff;
  bool needs_seed_ = false;
  std::thread::id seeder_;
  ShadowHeap heap_;
  // Blocks that were told, and are not in the heap: what is known of the device is wrong there.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> strays_;
  std::vector<Held> held_;
  std::array<PoolName, 64> pool_names_{};
  std::size_t pool_name_count_ = 0;
  TrackerCounts counts_;
  plimsoll_block last_{};  // the block allocated by the event handled last; address 0: none was
};

}  // namespace plimsoll::libtorch_cuda
