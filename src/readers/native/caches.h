// Caches: what the caching allocators of a recording hold, and, at its end, their segments with the
// blocks in them, as a snapshot would tell them.
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

// What a segment event changes, told so that sums are of what is held: what was given back unseen
// comes before what is taken over it, and what was never held is not given back.
struct SegmentChange {
  std::uint64_t returned = 0;
  std::uint64_t taken = 0;
};

class Caches {
 public:
  SegmentChange add(const format::Segment& segment);
  // This device has one, whether segments are told or not.
  void are_on(std::uint8_t device) { devices_.set(device); }
  bool is_on(std::uint8_t device) const { return devices_.test(device); }
  std::uint64_t memory_bytes() const { return segment_events_ * kSegmentBytes; }

  // Once every event has its place: gives the builder the final state.
  void tell(const base::Column<Allocation>& allocations, const DeviceTables& tables,
            const std::vector<Place>& places, Definitions& definitions, ReadContext& context) const;

 private:
  static constexpr std::uint64_t kSegmentBytes = 256;  // of the rows that one event adds

  std::vector<model::Segment> final_segments(const std::vector<Place>& places,
                                             Definitions& definitions,
                                             model::TraceBuilder& builder) const;

  format::SegmentSet held_;
  std::uint64_t segment_events_ = 0;
  std::bitset<256> devices_;        // with a caching allocator
  std::bitset<256> with_segments_;  // that were told
};

}  // namespace plimsoll::readers::native
