// Whether the free memory of a segment could be returned to the driver, in the units of
// base/release_units.h. In an expandable segment, the pages of small requests are 2 MiB and those
// of large ones 20 MiB; a mapped range starts on a page.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/release_units.h"
#include "model/segment_history.h"
#include "model/trace.h"
#include "plimsoll/caching_allocator.h"

namespace plimsoll::model {

enum class FreeKind : std::uint8_t {
  kPinned,      // a block keeps its unit
  kReleasable,  // empty_cache() would return it
  // In a private pool: empty_cache() cannot return it while the CUDA graph or the MemPool exists.
  kPrivate,
};

// The default pool is (0, 0). Files of old versions name no pools; their memory counts as the
// default pool's.
inline bool is_private(const Trace& trace, PoolId pool) {
  return trace.pools[pool.index()] != Pool{};
}

inline base::ReleaseUnits release_units(const SegmentRange& segment) {
  const std::uint64_t unit_bytes =
      segment.is_expandable ? caching_allocator::page_bytes(segment.type == SegmentType::kSmall)
                            : std::max<std::uint64_t>(segment.size_bytes, 1);
  return {segment.address, segment.end(), unit_bytes};
}

inline FreeKind kind_of(const Trace& trace, const SegmentRange& segment,
                        const base::ReleaseUnit& unit) {
  if (!unit.is_free()) return FreeKind::kPinned;
  return is_private(trace, segment.pool) ? FreeKind::kPrivate : FreeKind::kReleasable;
}

}  // namespace plimsoll::model
