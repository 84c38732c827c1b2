// Which cached bytes could be returned to the driver, and which live blocks pin the others. Used at
// the end of the recording and at each out-of-memory event.
//
// Memory is returned in units (model/segment_release.h).
//
// A gap is stranded with respect to a request if it is pinned and cannot serve the request: it is
// too small, or belongs to another stream, pool or segment type (requests up to 1 MiB are served
// from small segments, all others from large ones, and each stream has its own segments).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/heap_layout.h"
#include "model/trace.h"
#include "model/user_line.h"
#include "report/fragmentation.h"

namespace plimsoll::analysis {

struct Request {
  std::uint64_t size_bytes = 0;
  model::StreamId stream;
  model::PoolId pool;
};

struct Pinning {
  std::uint64_t reserved_bytes = 0;
  std::uint64_t cached_bytes = 0;
  std::uint64_t releasable_bytes = 0;
  // Free segments and pages of private pools: empty_cache() cannot release them while the CUDA
  // graph or the MemPool exists.
  std::uint64_t private_bytes = 0;
  std::vector<model::PoolId> private_pools;  // that have free memory the request cannot use
  std::uint64_t pinned_bytes = 0;
  std::uint64_t largest_free_bytes = 0;
  // With respect to the request; 0 without one:
  std::uint64_t largest_usable_bytes = 0;  // largest gap that may serve the request
  std::uint64_t stranded_bytes = 0;
  // Those of the request's stream, pool and segment type: expandable segments would join them.
  std::uint64_t joinable_bytes = 0;
  // Cached bytes, excluding other private pools: what could serve the request if there were no
  // fragmentation.
  std::uint64_t reachable_bytes = 0;
  std::vector<report::SegmentFragmentation> segments;  // partly free, most pinned first
  std::vector<report::PinningLine> lines;              // most pinned first
  std::vector<report::LoneBlock> lone_blocks;          // most pinned first
};

// True if the allocator searches this segment for `request`.
bool may_serve(const model::Trace& trace, const model::SegmentRange& segment,
               const Request& request);

// "pool (0, 1), pool (0, 2)": the first few.
std::string pools_text(const model::Trace& trace, const std::vector<model::PoolId>& pools);

Pinning find_pinning(const model::Trace& trace, const model::HeapLayout& layout,
                     const model::UserLines& lines, const std::optional<Request>& request);

}  // namespace plimsoll::analysis
