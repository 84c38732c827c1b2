#include "model/segment_history.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

#include "model/trace_builder.h"
#include "plimsoll/caching_allocator.h"
#include "tests/support/units.h"

namespace plimsoll::model {
namespace {

using tests::kMib;

constexpr std::uint64_t kPage = 2 * kMib;
constexpr std::uint64_t kExpandable = std::uint64_t{1} << 40;  // where its pages are

Event event_of(Action action, std::uint64_t address, std::uint64_t size) {
  Event event;
  event.action = action;
  event.address = address;
  event.size_bytes = size;
  return event;
}

// The slow, obvious reference: segments and pages, replayed forwards.
struct Heap {
  std::map<std::uint64_t, std::uint64_t> segments;  // address -> size
  std::set<std::uint64_t> pages;                    // of one expandable segment

  void apply(const Event& event) {
    const std::uint64_t first = (event.address - kExpandable) / kPage;
    const std::uint64_t count = event.size_bytes / kPage;
    if (event.action == Action::kSegmentAlloc) segments[event.address] = event.size_bytes;
    if (event.action == Action::kSegmentFree) segments.erase(event.address);
    for (std::uint64_t page = first; page < first + count; ++page) {
      if (event.action == Action::kSegmentMap) pages.insert(page);
      if (event.action == Action::kSegmentUnmap) pages.erase(page);
    }
  }

  std::vector<SegmentRange> ranges() const {
    std::vector<SegmentRange> all;
    for (const auto& [address, size] : segments) {
      all.push_back(SegmentRange{address, size, {}, {}, type_by_size(size), false});
    }
    for (std::uint64_t page : pages) {
      const std::uint64_t address = kExpandable + page * kPage;
      if (!all.empty() && all.back().is_expandable && all.back().end() == address) {
        all.back().size_bytes += kPage;
      } else {
        all.push_back(SegmentRange{address, kPage, {}, {}, SegmentType::kSmall, true});
      }
    }
    return all;
  }
};

class RandomRun {
 public:
  explicit RandomRun(unsigned seed) : random_(seed) {}

  Event next(const Heap& heap) {
    switch (below(4)) {
      case 0: {
        next_address_ += 64 * kMib;
        const std::uint64_t size = below(2) == 0 ? caching_allocator::kSmallSegmentBytes
                                                 : caching_allocator::kLargePageBytes;
        return event_of(Action::kSegmentAlloc, next_address_, size);
      }
      case 1:
        if (!heap.segments.empty()) {
          auto at = std::next(heap.segments.begin(),
                              static_cast<std::ptrdiff_t>(below(heap.segments.size())));
          return event_of(Action::kSegmentFree, at->first, at->second);
        }
        break;
      case 2:
        return pages_where(heap, Action::kSegmentMap);
      default:
        return pages_where(heap, Action::kSegmentUnmap);
    }
    return event_of(Action::kSnapshot, 0, 0);
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  // A run of up to three pages that are all unmapped (to map) or all mapped (to unmap).
  Event pages_where(const Heap& heap, Action action) {
    const bool wanted = action == Action::kSegmentUnmap;
    const std::uint64_t first = below(24);
    std::uint64_t count = 0;
    while (count < 3 && heap.pages.contains(first + count) == wanted) ++count;
    if (count == 0) return event_of(Action::kSnapshot, 0, 0);
    return event_of(action, kExpandable + first * kPage, count * kPage);
  }

  std::mt19937 random_;
  std::uint64_t next_address_ = 0;
};

Trace build(const std::vector<Event>& events, const Heap& end) {
  base::Diagnostics diagnostics;
  base::Progress progress;
  TraceBuilder builder(diagnostics);
  for (const Event& event : events) builder.add_event(Device{}, event);
  for (const SegmentRange& range : end.ranges()) {
    Segment segment;
    segment.address = range.address;
    segment.total_size = range.size_bytes;
    segment.type = range.type;
    segment.is_expandable = range.is_expandable;
    builder.add_segment(segment, {});
  }
  builder.final_state_known();
  return std::move(builder.finish("test", progress)).value();
}

// Two or three small pages mapped together may look like something else: only the type is a guess.
std::vector<SegmentRange> without_types(std::vector<SegmentRange> ranges) {
  for (SegmentRange& range : ranges) range.type = SegmentType::kUnknown;
  return ranges;
}

TEST(SegmentHistory, rolls_back_to_the_state_of_a_forward_run_after_every_event) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    RandomRun run(seed);
    Heap heap;
    std::vector<Event> events;
    std::vector<std::vector<SegmentRange>> expected{heap.ranges()};
    std::vector<std::int64_t> points{-1};
    for (std::int64_t number = 0; number < 200; ++number) {
      events.push_back(run.next(heap));
      heap.apply(events.back());
      expected.push_back(heap.ranges());
      points.push_back(number);
    }
    const Trace trace = build(events, heap);
    const auto found = segments_at(trace, trace.devices[0], points);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t at = 0; at < found.size(); ++at) {
      ASSERT_EQ(without_types(found[at]), without_types(expected[at]))
          << "seed " << seed << " event " << points[at];
    }
  }
}

TEST(SegmentHistory, a_remapped_range_gets_the_type_and_pool_of_its_neighbor) {
  Event unmap = event_of(Action::kSegmentUnmap, kExpandable + kPage, 2 * kPage);
  base::Diagnostics diagnostics;
  base::Progress progress;
  TraceBuilder builder(diagnostics);
  builder.add_event(Device{}, unmap);
  Segment segment;
  segment.address = kExpandable;
  segment.total_size = kPage;
  segment.type = SegmentType::kSmall;
  segment.pool = builder.pool(Pool{0, 7});
  segment.is_expandable = true;
  builder.add_segment(segment, {});
  const Trace trace = std::move(builder.finish("test", progress)).value();
  const std::vector<std::int64_t> before{-1};
  const auto found = segments_at(trace, trace.devices[0], before);
  ASSERT_EQ(found[0].size(), 1u);
  EXPECT_EQ(found[0][0].size_bytes, 3 * kPage);
  EXPECT_EQ(found[0][0].type, SegmentType::kSmall);
  EXPECT_EQ(found[0][0].pool, segment.pool);
}

TEST(SegmentHistory, events_that_contradict_the_segments_are_skipped) {
  const std::vector<Event> events{event_of(Action::kSegmentAlloc, 5, 9),
                                  event_of(Action::kSegmentMap, 1, 1000),
                                  event_of(Action::kSegmentMap, ~std::uint64_t{0}, 1000)};
  const Trace trace = build(events, Heap{{{kPage, kPage}}, {}});
  const std::vector<std::int64_t> before{-1};
  const auto found = segments_at(trace, trace.devices[0], before);
  ASSERT_EQ(found[0].size(), 1u);
  EXPECT_EQ(found[0][0].size_bytes, kPage);
}

TEST(SegmentHistory, takes_segments_up_to_2_MiB_as_small) {
  EXPECT_EQ(type_by_size(1 << 20), SegmentType::kSmall);
  EXPECT_EQ(type_by_size(2 << 20), SegmentType::kSmall);
  EXPECT_EQ(type_by_size(20 << 20), SegmentType::kLarge);
}

}  // namespace
}  // namespace plimsoll::model
