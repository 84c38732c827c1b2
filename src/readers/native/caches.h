// Caches tracks the caching allocators of a recording and, at its end, builds their segments with
// the blocks in them, as they would be in a snapshot.
#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "base/column.h"
#include "format/segment_set.h"
#include "model/trace_builder.h"
#include "readers/native/allocation.h"
#include "readers/native/definitions.h"
#include "readers/reader.h"

namespace plimsoll::readers::native {

// The effects of a segment event, in the order in which they apply, so that sums match the reserved
// memory. A range that was freed without an event is returned before a new one is allocated over
// it, and a range that was never allocated is not freed.
struct SegmentChange {
  std::uint64_t returned = 0;
  std::uint64_t taken = 0;
};

class Caches {
 public:
  SegmentChange add(const format::Segment& segment);
  // Declares that this device has a caching allocator, with or without segment events.
  void are_on(std::uint8_t device) { devices_.set(device); }
  bool is_on(std::uint8_t device) const { return devices_.test(device); }
  std::uint64_t memory_bytes() const { return segment_events_ * kSegmentBytes; }

  // Call after the last event: passes the final state to the builder.
  void emit(const base::Column<Allocation>& allocations, const DeviceTables& tables,
            const std::vector<Place>& places, Definitions& definitions, ReadContext& context) const;

 private:
  static constexpr std::uint64_t kSegmentBytes = 256;  // size of the rows that one event adds

  std::vector<model::Segment> final_segments(const std::vector<Place>& places,
                                             Definitions& definitions,
                                             model::TraceBuilder& builder) const;

  format::SegmentSet held_;
  std::uint64_t segment_events_ = 0;
  std::bitset<256> devices_;        // devices with a caching allocator
  std::bitset<256> with_segments_;  // devices that have segment events
};

}  // namespace plimsoll::readers::native
