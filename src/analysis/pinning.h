// Which cached bytes could be given back to the driver, and which live blocks pin the others. Used
// at the end of the recording and at each out-of-memory event.
//
// The allocator releases memory in units: a segment with no active block in it, or, of an
// expandable segment, a page with none (2 MiB pages serve small requests, 20 MiB pages large ones;
// a mapped range starts on a page). What is free in a unit that an active block touches is pinned:
//
//   segment  |####........|..........|    # active, . free
//   plain    one unit: all 18 free bytes are pinned by the block at the left
//   pages    |####........|..........|    8 pinned, 10 releasable
//
// A gap is stranded against a request if it is pinned and cannot serve it: too small, or of
// another stream, pool, or segment type (requests up to 1 MiB are served from small segments, all
// others from large ones, each stream from its own).
#pragma once

#include <cstdint>
#include <optional>
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
  std::uint64_t pinned_bytes = 0;
  std::uint64_t largest_free_bytes = 0;
  // Against the request; 0 without one.
  std::uint64_t largest_usable_bytes = 0;  // largest gap where the request may be served
  std::uint64_t stranded_bytes = 0;
  std::uint64_t reachable_bytes = 0;  // cached bytes but those of other private pools: what a heap
                                      // without fragmentation could serve it from
  std::vector<report::SegmentFragmentation> segments;  // partly free, most pinned first
  std::vector<report::PinningLine> lines;              // most pinned first
};

// True if the allocator looks for room for `request` in this segment.
bool may_serve(const model::Trace& trace, const model::SegmentRange& segment,
               const Request& request);

Pinning find_pinning(const model::Trace& trace, const model::HeapLayout& layout,
                     const model::UserLines& lines, const std::optional<Request>& request);

}  // namespace plimsoll::analysis
