// Tests of the events that caching allocators report through the C interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "format/decoder.h"
#include "plimsoll/last_failure_c.h"
#include "plimsoll/recorder_c.h"
#include "tests/support/recorded.h"

namespace plimsoll::record {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using tests::api;
using tests::here;
using tests::Recorded;
using tests::TraceReplay;

std::uint8_t cuda() { return api().device(PLIMSOLL_DEVICE_CUDA, 0); }
plimsoll_block block(std::uint64_t address, std::uint64_t requested, std::uint64_t size) {
  return {.address = address,
          .requested_bytes = requested,
          .size_bytes = size,
          .stream = 7,
          .pool = tests::name("0.1"),
          .reserved = 0};
}
void alloc(std::uint64_t address, std::uint64_t requested, std::uint64_t size) {
  const plimsoll_block handed_out = block(address, requested, size);
  api().alloc_block(here(), cuda(), &handed_out);
}
void segment(plimsoll_segment_action action, std::uint64_t address, std::uint64_t size) {
  api().segment(here(), cuda(), static_cast<std::uint8_t>(action), address, size, 7,
                tests::name("0.2"));
}
plimsoll_usage usage(const Recorded& recording, std::uint64_t span = 0) {
  std::vector<plimsoll_usage> rows(256);
  rows.resize(plimsoll_recording_usage(recording.get(), span, rows.data(), rows.size()));
  return cuda() < rows.size() ? rows[cuda()] : plimsoll_usage{};
}

TEST(CachingAllocator, a_recorder_shows_by_its_size_that_it_accepts_blocks) {
  EXPECT_EQ(api().abi_version, 1u);
  EXPECT_GE(api().size_bytes,
            offsetof(plimsoll_recorder_api, out_of_memory) + sizeof(api().out_of_memory));
}

TEST(CachingAllocator, its_events_are_in_the_file) {
  const Recorded recording = Recorded::in_memory();
  segment(PLIMSOLL_SEGMENT_ALLOC, 1 << 21, 1 << 21);
  alloc(1 << 21, 1000, 1024);
  api().free_requested(here(), cuda(), 1 << 21);
  api().free_completed(here(), cuda(), 1 << 21);
  const plimsoll_block wanted = block(0, 9000, 0);
  api().out_of_memory(here(), cuda(), &wanted, 55, 66, 77);

  TraceReplay replay = recording.replay();
  EXPECT_THAT(replay.violations, IsEmpty());
  ASSERT_THAT(replay.allocs, SizeIs(1));
  EXPECT_EQ(replay.allocs[0].size_bytes, 1000u);
  EXPECT_EQ(replay.allocs[0].padding_bytes, 24u);
  const format::Site& site = replay.sites.at(replay.allocs[0].site);
  EXPECT_EQ(site.stream, 7u);
  EXPECT_EQ(replay.names.at(site.pool), "0.1");
  EXPECT_EQ(site.device, cuda());
  EXPECT_THAT(replay.frees, SizeIs(1));
  EXPECT_THAT(replay.live, IsEmpty());
  ASSERT_THAT(replay.out_of_memory, SizeIs(1));
  EXPECT_EQ(replay.out_of_memory[0].size_bytes, 9000u);
  EXPECT_EQ(replay.out_of_memory[0].device_free_bytes, 55u);
  EXPECT_EQ(replay.out_of_memory[0].limit_bytes, 66u);
  EXPECT_EQ(replay.out_of_memory[0].device_total_bytes, 77u);
  ASSERT_THAT(replay.segments, SizeIs(1));
  EXPECT_EQ(replay.segments[0].device, cuda());
  EXPECT_EQ(replay.segments[0].size_bytes, 1u << 21);
  EXPECT_EQ(replay.names.at(replay.sites.at(replay.segments[0].site).pool), "0.2");
}

TEST(CachingAllocator, the_drivers_figures_for_its_device_are_in_the_file) {
  const Recorded recording = Recorded::in_memory();
  const std::uint32_t serve = tests::name("serve");
  api().device_figure(here(), cuda(), PLIMSOLL_FIGURE_TOTAL, UINT64_MAX, 0, 0);
  api().device_figure(here(), cuda(), PLIMSOLL_FIGURE_PROCESS, 55, 77, serve);
  TraceReplay replay = recording.replay();
  std::erase_if(replay.figures, [](const auto& figure) { return figure.device != cuda(); });
  ASSERT_THAT(replay.figures, SizeIs(2));
  EXPECT_EQ(replay.figures[0].value, UINT64_MAX);
  EXPECT_EQ(replay.figures[1].device, cuda());
  EXPECT_EQ(replay.figures[1].figure, PLIMSOLL_FIGURE_PROCESS);
  EXPECT_EQ(replay.figures[1].pid, 77u);
  EXPECT_EQ(replay.names.at(replay.figures[1].name), "serve");
  EXPECT_GE(replay.figures[1].time_ns, replay.figures[0].time_ns);
}

TEST(CachingAllocator, usage_reports_what_is_allocated_active_and_reserved) {
  const Recorded recording = Recorded::in_memory();
  const std::uint64_t span = plimsoll_recording_begin_span(recording.get());
  segment(PLIMSOLL_SEGMENT_ALLOC, 1 << 21, 1 << 21);
  segment(PLIMSOLL_SEGMENT_ALLOC, 1 << 23, 1 << 22);
  alloc(1 << 21, 1000, 1024);
  alloc(1 << 23, 3'000'000, 1 << 22);
  api().free_requested(here(), cuda(), 1 << 23);
  const plimsoll_usage pending = usage(recording, span);
  EXPECT_EQ(pending.live_bytes, 1024u);
  EXPECT_EQ(pending.live_count, 1u);
  EXPECT_EQ(pending.requested_bytes, 1000u);
  EXPECT_EQ(pending.active_bytes, 1024u + (1 << 22));
  EXPECT_EQ(pending.reserved_bytes, 3u << 21);
  EXPECT_EQ(pending.has_segments, 1);
  api().free_completed(here(), cuda(), 1 << 23);
  segment(PLIMSOLL_SEGMENT_FREE, 1 << 23, 1 << 22);
  const plimsoll_usage after = usage(recording, span);
  EXPECT_EQ(after.active_bytes, 1024u);
  EXPECT_EQ(after.reserved_bytes, 1u << 21);
  EXPECT_EQ(after.peak_bytes, 1024u + (1 << 22));
  EXPECT_EQ(after.peak_reserved_bytes, 3u << 21);
  EXPECT_EQ(recording.state().live_bytes, 1024u);

  std::vector<plimsoll_live> rows(8);
  rows.resize(plimsoll_recording_live(recording.get(), rows.data(), rows.size()));
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].size_bytes, 1024u);
  EXPECT_EQ(rows[0].requested_bytes, 1000u);
}

TEST(CachingAllocator, a_recording_that_starts_midway_begins_with_segments_and_pending_frees) {
  Recorded first = Recorded::in_memory();
  segment(PLIMSOLL_SEGMENT_MAP, 1 << 21, 1 << 21);
  segment(PLIMSOLL_SEGMENT_MAP, 2 << 21, 1 << 21);
  segment(PLIMSOLL_SEGMENT_UNMAP, 2 << 21, 1 << 20);
  alloc(1 << 21, 1000, 1024);
  alloc((1 << 21) + 1024, 500, 512);
  api().free_requested(here(), cuda(), 1 << 21);
  const Recorded second = Recorded::in_memory();
  first.stop();
  TraceReplay replay = second.replay();
  EXPECT_THAT(replay.violations, IsEmpty());
  EXPECT_EQ(replay.adopted, 2u);
  EXPECT_THAT(replay.pending, SizeIs(1));
  std::vector<std::uint64_t> held;
  replay.held.for_each([&](const format::Segment& each) { held.push_back(each.size_bytes); });
  EXPECT_THAT(held, ElementsAre(1 << 21, 1 << 20));
}

// Segments of 20 MiB: the first starts with a block; the second has a block in the middle and is
// free after it; the third is empty.
TEST(CachingAllocator, memory_unusable_for_a_failed_request_is_reported_with_its_pins) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const Recorded recording = Recorded::in_memory();
  const auto alloc_at = [](std::uint64_t address, std::uint64_t size, const char* layer) {
    const plimsoll_block taken{address, size, size, address < 400 * kMiB ? 7u : 0u, 0, 0};
    here()->layer = tests::name(layer);
    const plimsoll_frame frame{tests::name("train.py"), tests::name("step"), 12};
    here()->stack = api().stack(&frame, 1);
    api().alloc_block(here(), cuda(), &taken);
    here()->layer = here()->stack = 0;
  };
  const auto segment_at = [](std::uint64_t address, std::uint64_t stream) {
    api().segment(here(), cuda(), PLIMSOLL_SEGMENT_ALLOC, address, 20 * kMiB, stream, 0);
  };
  plimsoll_stranded sums{};
  EXPECT_EQ(plimsoll_recording_pins(recording.get(), cuda(), &sums, nullptr, 0), 0u);
  for (const std::uint64_t at : {100u, 200u, 300u}) segment_at(at * kMiB, 7);
  segment_at(400 * kMiB, 0);  // of another stream
  alloc_at(100 * kMiB, 3 * kMiB, "Net.up");
  alloc_at(110 * kMiB, 2 * kMiB, "Net.up");
  alloc_at(200 * kMiB, 2 * kMiB, "Net.down");
  alloc_at(400 * kMiB, 2 * kMiB, "Net.down");
  const plimsoll_block wanted{0, 16 * kMiB, 0, 7, 0, 0};
  api().out_of_memory(here(), cuda(), &wanted, 0, 0, 0);
  std::vector<plimsoll_pin> rows(8);
  rows.resize(plimsoll_recording_pins(recording.get(), cuda(), &sums, rows.data(), rows.size()));
  EXPECT_EQ(sums.free_bytes, (7 + 8 + 18 + 20 + 18) * kMiB);
  EXPECT_EQ(sums.largest_usable_bytes, 20 * kMiB);
  EXPECT_EQ(sums.stranded_bytes, (7 + 8 + 18) * kMiB);
  ASSERT_THAT(rows, SizeIs(3));
  for (const std::size_t i : {0u, 1u}) {
    EXPECT_EQ(rows[i].layer, tests::name("Net.down"));
    EXPECT_EQ(rows[i].pinned_bytes, 18 * kMiB);
  }
  EXPECT_EQ(rows[2].layer, tests::name("Net.up"));
  EXPECT_EQ(rows[2].count, 2u);
  EXPECT_EQ(rows[2].size_bytes, 5 * kMiB);
  EXPECT_EQ(rows[2].pinned_bytes, 15 * kMiB) << "two blocks pin one segment";
  plimsoll_frame frame{};
  ASSERT_EQ(plimsoll_stack_frames(rows[2].stack, &frame, 1), 1u);
  EXPECT_EQ(frame.line, 12u);
  EXPECT_EQ(plimsoll_stack_frames(0, &frame, 1), 0u);
}

TEST(CachingAllocator, segments_smaller_than_torchs_are_small) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const Recorded recording = Recorded::in_memory();
  api().segment(here(), cuda(), PLIMSOLL_SEGMENT_ALLOC, 100 * kMiB, kMiB, 7, 0);
  const plimsoll_block taken{100 * kMiB, 512, 512, 7, 0, 0};
  api().alloc_block(here(), cuda(), &taken);
  const plimsoll_block wanted{0, 16 * kMiB, 0, 7, 0, 0};
  api().out_of_memory(here(), cuda(), &wanted, 0, 0, 0);
  plimsoll_stranded sums{};
  EXPECT_EQ(plimsoll_recording_pins(recording.get(), cuda(), &sums, nullptr, 0), 1u);
  EXPECT_EQ(sums.free_bytes, kMiB - 512);
  EXPECT_EQ(sums.largest_usable_bytes, 0u);
}

TEST(CachingAllocator, segments_that_grow_are_pinned_page_by_page) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const Recorded recording = Recorded::in_memory();
  for (std::uint64_t page = 0; page < 4; ++page) {
    api().segment(here(), cuda(), PLIMSOLL_SEGMENT_MAP, (100 + 20 * page) * kMiB, 20 * kMiB, 7, 0);
  }
  const plimsoll_block taken{110 * kMiB, 15 * kMiB, 15 * kMiB, 7, 0, 0};  // in the first two pages
  api().alloc_block(here(), cuda(), &taken);
  const plimsoll_block wanted{0, 90 * kMiB, 0, 7, 0, 0};
  api().out_of_memory(here(), cuda(), &wanted, 0, 0, 0);
  plimsoll_stranded sums{};
  plimsoll_pin row{};
  EXPECT_EQ(plimsoll_recording_pins(recording.get(), cuda(), &sums, &row, 1), 1u);
  EXPECT_EQ(sums.free_bytes, 65 * kMiB);
  EXPECT_EQ(sums.stranded_bytes, 25 * kMiB) << "the last two pages can be given back";
  EXPECT_EQ(sums.largest_usable_bytes, 55 * kMiB);
  EXPECT_EQ(row.pinned_bytes, 25 * kMiB);
}

TEST(CachingAllocator, changes_since_the_last_step_are_reported_by_role) {
  const Recorded recording = Recorded::in_memory();
  const std::uint32_t weight = api().tensor(PLIMSOLL_ROLE_PARAMETER, tests::name("w"), 0, 0);
  std::uint64_t step = 0, then[7] = {}, now[7] = {};
  const auto since = [&] {
    return plimsoll_recording_since_step(recording.get(), cuda(), &step, then, now);
  };
  alloc(1 << 21, 1000, 1024);
  EXPECT_EQ(since(), 0);
  api().mark(here(), PLIMSOLL_MARK_STEP, 4);
  api().tag(here(), cuda(), 1 << 21, weight);
  alloc(1 << 22, 500, 512);
  ASSERT_EQ(since(), 1);
  EXPECT_EQ(step, 4u);
  EXPECT_EQ(then[PLIMSOLL_ROLE_KNOWN], 1024u);
  EXPECT_EQ(now[PLIMSOLL_ROLE_KNOWN], 512u);
  EXPECT_EQ(then[PLIMSOLL_ROLE_PARAMETER], 0u);
  EXPECT_EQ(now[PLIMSOLL_ROLE_PARAMETER], 1024u);
}

TEST(CachingAllocator, more_events_than_a_ring_fits_are_reported_with_drains_in_between) {
  const Recorded recording(tests::options_for(PLIMSOLL_SINK_NULL));
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    if (i % 10'000 == 0) api().settle();
    const plimsoll_block lived = block((i + 1) << 9, 500, 512);
    api().adopt_block(here(), cuda(), &lived, 0);
  }
  EXPECT_EQ(recording.state().live_count, 200'000u);
  EXPECT_EQ(recording.state().dropped, 0u);
}

TEST(CachingAllocator, eviction_keeps_segments_and_pending_frees) {
  const Recorded recording = Recorded::in_memory(1'000);
  segment(PLIMSOLL_SEGMENT_ALLOC, 1 << 21, 1 << 21);
  alloc(1 << 21, 1000, 1024);
  api().free_requested(here(), cuda(), 1 << 21);
  for (int i = 0; i < 5'000; ++i) {
    alloc((1 << 21) + 1024, 500, 512);
    api().free_completed(here(), cuda(), (1 << 21) + 1024);
  }
  TraceReplay replay = recording.replay();
  EXPECT_THAT(replay.violations, IsEmpty());
  EXPECT_GT(replay.evicted, 0u);
  EXPECT_THAT(replay.segments, SizeIs(1));
  EXPECT_THAT(replay.pending, SizeIs(1));
  EXPECT_EQ(replay.live_bytes, 1024u);
}

// The times of all events, in file order.
struct Times : format::NoRecords {
  void on_alloc(const format::Alloc& event) { all.push_back(event.time_ns); }
  void on_free(const format::Free& event) { all.push_back(event.time_ns); }
  void on_free_requested(const format::FreeRequested& event) { all.push_back(event.time_ns); }
  void on_segment(const format::Segment& event) { all.push_back(event.time_ns); }

  std::vector<std::int64_t> all;
};

TEST(CachingAllocator, eviction_keeps_times_ascending) {
  const Recorded recording = Recorded::in_memory(1'000);
  segment(PLIMSOLL_SEGMENT_ALLOC, 9 << 21, 1 << 21);
  alloc(9 << 21, 1000, 1024);
  alloc((9 << 21) + 1024, 500, 512);
  segment(PLIMSOLL_SEGMENT_ALLOC, 1 << 21, 1 << 21);  // at a lower address than the other one
  alloc(1 << 21, 1000, 1024);
  api().free_requested(here(), cuda(), 9 << 21);
  for (int i = 0; i < 5'000; ++i) {
    alloc((1 << 21) + 1024, 500, 512);
    api().free_completed(here(), cuda(), (1 << 21) + 1024);
  }
  std::size_t size_bytes = 0;
  void* const bytes = plimsoll_recording_copy(recording.get(), &size_bytes);
  ASSERT_NE(bytes, nullptr);
  Times times;
  format::Decoder<Times> decoder(times);
  decoder.push({static_cast<const std::byte*>(bytes), size_bytes});
  decoder.finish();
  std::free(bytes);
  EXPECT_GT(times.all.size(), 1'000u);
  EXPECT_TRUE(std::ranges::is_sorted(times.all));
}

}  // namespace
}  // namespace plimsoll::record
