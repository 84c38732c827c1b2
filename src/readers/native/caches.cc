#include "readers/native/caches.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "model/segment_history.h"
#include "plimsoll/caching_allocator.h"
#include "readers/native/diagnostics.h"

namespace plimsoll::readers::native {
namespace {

using model::Block;
using model::BlockState;
using model::Segment;
using model::SegmentType;

SegmentType type_by_request(std::uint64_t requested_bytes) {
  return caching_allocator::is_small_request(requested_bytes) ? SegmentType::kSmall
                                                              : SegmentType::kLarge;
}

// Where an allocation was made; its segment is the last one that begins at or before it.
struct Live {
  std::size_t segment = 0;
  std::uint64_t address = 0;
  std::uint32_t row = 0;  // of the device's events
  BlockState state = BlockState::kActiveAllocated;
  std::uint8_t device = 0;
};

std::size_t segment_around(std::span<const Segment> segments, model::Device device,
                           std::uint64_t address) {
  const auto key = std::pair(device, address);
  const auto after = std::upper_bound(
      segments.begin(), segments.end(), key,
      [](const auto& a, const Segment& s) { return a < std::pair(s.device, s.address); });
  if (after == segments.begin()) return segments.size();
  const Segment& segment = *(after - 1);
  const bool is_in = segment.device == device && address - segment.address < segment.total_size;
  return is_in ? static_cast<std::size_t>(after - 1 - segments.begin()) : segments.size();
}

// The blocks of one segment: the live ones by address, and the free ranges between them.
class Tiles {
 public:
  explicit Tiles(Segment& segment) : segment_(segment) {}

  bool add(const Block& block) {
    const std::uint64_t offset = block.address - segment_.address;
    if (offset < next_ || block.size > segment_.total_size - offset) return false;
    fill_to(offset);
    blocks_.push_back(block);
    next_ = offset + block.size;
    segment_.active_size += block.size;
    segment_.requested_size += block.requested_size;
    if (block.state == BlockState::kActiveAllocated) segment_.allocated_size += block.size;
    return true;
  }
  std::span<const Block> finish() {
    fill_to(segment_.total_size);
    return blocks_;
  }

 private:
  void fill_to(std::uint64_t offset) {
    if (offset == next_) return;
    Block gap;
    gap.address = segment_.address + next_;
    gap.size = offset - next_;
    blocks_.push_back(gap);
    next_ = offset;
  }

  Segment& segment_;
  std::uint64_t next_ = 0;  // the segment is tiled up to here
  std::vector<Block> blocks_;
};

}  // namespace

SegmentChange Caches::add(const format::Segment& segment) {
  are_on(segment.device);
  with_segments_.set(segment.device);
  ++segment_events_;
  const bool is_taken =
      segment.action == format::kSegmentAlloc || segment.action == format::kSegmentMap;
  const std::uint64_t taken = is_taken ? segment.size_bytes : 0;
  return {taken - held_.apply(segment), taken};
}

// Adjacent pages of an expandable segment form one segment, as in a snapshot.
std::vector<Segment> Caches::final_segments(const std::vector<Place>& places,
                                            Definitions& definitions,
                                            model::TraceBuilder& builder) const {
  std::vector<Segment> segments;
  held_.for_each([&](const format::Segment& held) {
    if (held.size_bytes == 0) return;
    const format::Site* const site = definitions.find_site(held.site);
    Segment row;
    if (held.site < places.size()) row.stack = places[held.site].site.stack;
    row.device = definitions.device(held.device);
    row.address = held.address;
    row.total_size = held.size_bytes;
    row.is_expandable = held.action == format::kSegmentMap;
    if (site != nullptr) {
      row.stream = builder.stream(site->stream);
      row.pool = definitions.pool(site->pool);
    }
    if (!segments.empty()) {
      Segment& last = segments.back();
      const bool is_next = last.address + last.total_size == row.address;
      if (last.is_expandable && row.is_expandable && is_next && last.device == row.device &&
          last.stream == row.stream && last.pool == row.pool) {
        last.total_size += row.total_size;
        return;
      }
    }
    segments.push_back(row);
  });
  std::ranges::stable_sort(segments, {},
                           [](const Segment& s) { return std::pair(s.device, s.address); });
  return segments;
}

void Caches::emit(const base::Column<Allocation>& allocations, const DeviceTables& tables,
                  const std::vector<Place>& places, Definitions& definitions,
                  ReadContext& context) const {
  if (devices_.none()) return;
  model::TraceBuilder& builder = context.builder;
  std::vector<Segment> segments = final_segments(places, definitions, builder);
  std::vector<Live> live;
  std::uint64_t outside = 0;
  for (const Allocation& allocation : allocations) {
    if (!with_segments_.test(allocation.device)) continue;
    const model::Device device = definitions.device(allocation.device);
    const model::Events& events = *tables[allocation.device].events;
    const model::Lifetimes& lifetimes = *tables[allocation.device].lifetimes;
    const std::uint32_t row = lifetimes.alloc[allocation.lifetime];
    const bool is_pending = (allocation.flags & Allocation::kIsPending) != 0;
    const bool is_live =
        is_pending || lifetimes.free_requested[allocation.lifetime] == model::kNone;
    const std::size_t at = segment_around(segments, device, events.address[row]);
    if (at == segments.size()) {
      outside += is_live ? 1 : 0;
      continue;
    }
    // A segment without a pool gets the pool of its allocations: torch before 2.8 reports the pools
    // of segments only in snapshots.
    if (segments[at].pool == model::PoolId{}) {
      segments[at].pool = builder.sites()[events.site[row]].pool;
    }
    if (segments[at].is_expandable && segments[at].type != SegmentType::kSmall) {
      segments[at].type = type_by_request(events.size_bytes[row]);
    }
    if (!is_live) continue;
    live.push_back({at, events.address[row], row,
                    is_pending ? BlockState::kActivePendingFree : BlockState::kActiveAllocated,
                    allocation.device});
  }
  std::ranges::sort(live, {}, [](const Live& l) { return std::pair(l.segment, l.address); });
  auto next = live.begin();
  for (std::size_t at = 0; at < segments.size(); ++at) {
    Segment& segment = segments[at];
    if (segment.type == SegmentType::kUnknown) {  // nothing was ever allocated in it
      segment.type = model::type_by_size(segment.total_size);
    }
    Tiles tiles(segment);
    for (; next != live.end() && next->segment == at; ++next) {
      const model::Events& events = *tables[next->device].events;
      Block block;
      block.address = next->address;
      block.requested_size = events.size_bytes[next->row];
      block.size = block.requested_size + events.padding_bytes[next->row];
      block.stack = builder.sites()[events.site[next->row]].stack;
      block.state = next->state;
      outside += tiles.add(block) ? 0 : 1;
    }
    builder.add_segment(segment, tiles.finish());
  }
  if (with_segments_.any()) builder.final_state_known();
  for (std::size_t id = 0; id < devices_.size(); ++id) {
    const model::Device device = definitions.device(static_cast<std::uint8_t>(id));
    if (devices_.test(id)) {
      builder.blocks_reported(device);
      // memory from before is recorded as adopted or as existing segments
      builder.set_before(device, 0, 0);
    }
    if (!with_segments_.test(id)) builder.final_state_unknown(device);
  }
  context.diagnostics.add(kBlockOutsideSegments, outside);
}

}  // namespace plimsoll::readers::native
