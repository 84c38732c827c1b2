// The events of torch's caching allocator, independent of torch's version. torch_allocator.cc
// creates them; everything else uses them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "heap_settings.h"

namespace plimsoll::libtorch_cuda {

enum class Action : std::uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kSnapshot,
  kOutOfMemory,
  kOther  // annotations, and what later versions add
};

// Which library an allocation is a workspace of (library_workspaces.h).
enum class Library : std::uint8_t { kNone, kCublas, kCublasLt, kCudnn, kCusolver, kCusparse };
inline constexpr std::size_t kLibraries = 6;

struct AllocatorEvent {
  Action action = Action::kOther;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;  // as the allocator reports it: for a block, the requested bytes
  std::uint64_t stream = 0;
  HeapPool pool = {};
  Library library = Library::kNone;  // of an allocation
};

// A failed request.
struct Failure {
  std::uint64_t requested_bytes = 0;
  std::uint64_t segment_bytes = 0;  // requested from the driver for it
  std::uint64_t free_bytes = 0;     // of the device
  std::uint64_t limit_bytes = 0;    // the limit of the process
  std::uint64_t total_bytes = 0;    // of the device; 0: unknown
};

// A device in a snapshot. The blocks of a segment are in the order of their addresses.
struct SeenBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;
  BlockState state = BlockState::kInactive;
};
struct SeenSegment {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;
  HeapPool pool = {};
  bool is_expandable = false;
  std::vector<SeenBlock> blocks;
};
struct SeenDevice {
  HeapSettings settings;
  std::vector<SeenSegment> segments;
};

}  // namespace plimsoll::libtorch_cuda
