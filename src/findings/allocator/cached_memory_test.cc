#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "findings/rules.h"
#include "tests/support/own_case.h"
#include "tests/support/steps_text.h"

namespace plimsoll::findings {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// `reserved` and `live` are peaks in MiB; nothing pins the cached memory.
Case cached(std::uint64_t reserved, std::uint64_t live, std::size_t sizes = 8) {
  Case c;
  c.maker.on(model::Device{});
  const model::StackId stack = c.maker.stack({{"train.py", 7, "main"}});
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::uint64_t size = (20 + i % sizes) * kMib;
    c.maker.alloc(1 + i, size, stack).free(1 + i, size);
  }
  c.maker.alloc(99, kMib, stack);
  c.report.devices.resize(1);
  report::DeviceReport& device = c.report.devices[0];
  device.reserved.peak_bytes = static_cast<std::int64_t>(reserved * kMib);
  device.requested_active.peak_bytes = static_cast<std::int64_t>(live * kMib);
  report::ReservedPeak& peak = device.fragmentation.at_reserved_peak;
  peak.event = 7;
  peak.line = "train.py:7 (main)";
  peak.requested_bytes = 27 * kMib;
  return c;
}

TEST(CachedMemory, far_above_what_was_live_is_reported) {
  const Findings found = cached(3000, 860).run(stranded_memory);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "stranded_memory");
  EXPECT_EQ(found[0].title,
            "2.9 GiB reserved on cuda:0, at most 860.0 MiB used: 2.1 GiB are cached blocks of "
            "earlier shapes");
  EXPECT_THAT(found[0].evidence,
              Contains("Calls request different sizes: train.py:7 (main) 9 sizes up to 27.0 MiB."));
  EXPECT_EQ(found[0].saving_bytes(), 2140 * kMib);
  EXPECT_THAT(steps_text(found[0]), HasSubstr(" | Pad the inputs to a few lengths"));
}

TEST(CachedMemory, is_a_warning_only_where_the_device_is_used_for_a_good_part) {
  for (const std::uint64_t total_gib : {0u, 5u, 80u}) {
    Case c = cached(3000, 860);
    if (total_gib > 0) {
      c.report.devices[0].bars.resize(1);
      c.report.devices[0].bars[0].total_bytes = total_gib * kGib;
    }
    const Findings found = c.run(stranded_memory);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].severity,
              total_gib == 80 ? report::FindingSeverity::kInfo : report::FindingSeverity::kWarning);
  }
}

TEST(CachedMemory, of_one_size_only_is_not_blamed_on_shapes) {
  const Findings found = cached(3000, 860, 1).run(stranded_memory);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("cached blocks that no later request fits"));
  EXPECT_THAT(steps_text(found[0]), Not(HasSubstr("Pad")));
}

TEST(CachedMemory, the_usual_cost_of_a_caching_allocator_is_not_reported) {
  EXPECT_THAT(cached(27000, 23900).run(stranded_memory), IsEmpty());
  EXPECT_THAT(cached(500, 250).run(stranded_memory), IsEmpty());
  EXPECT_THAT(cached(500, 240).run(stranded_memory), SizeIs(1));
}

TEST(CachedMemory, from_before_the_recording_may_have_been_used_then) {
  Case c = cached(3000, 860);
  c.report.devices[0].reserved.baseline_bytes = static_cast<std::int64_t>(2900 * kMib);
  EXPECT_THAT(c.run(stranded_memory), IsEmpty());
}

TEST(CachedMemory, expandable_segments_are_not_advised_where_they_are_on) {
  Case c = cached(3000, 860);
  c.maker.builder().add_setting(model::Setting{"expandable_segments", true});
  const Findings found = c.run(stranded_memory);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Contains("expandable_segments is on already."));
  EXPECT_THAT(found[0].next_step(), HasSubstr("Pad the inputs"));
  EXPECT_THAT(steps_text(found[0]), Not(HasSubstr("garbage_collection_threshold")));
}

// 2 GiB are cached in two segments; the request that raises reserved bytes is of stream 0.
Findings cached_on(std::uint64_t stream) {
  Case c;
  c.maker.on(model::Device{});
  const auto prepare = c.maker.stack({{"train.py", 3, "prepare"}});
  const auto event = [&](model::Action action, std::uint64_t address, std::uint64_t size,
                         std::uint64_t on, model::StackId stack = model::kNoStack) {
    model::Event row;
    row.action = action;
    row.address = address;
    row.size_bytes = size;
    row.stream = c.maker.builder().stream(on);
    row.stack = stack;
    c.maker.event(row);
  };
  for (std::uint64_t address : {8 * kGib, 16 * kGib}) {
    event(model::Action::kSegmentAlloc, address, kGib, stream, prepare);
    event(model::Action::kAlloc, address, kGib, stream, prepare);
    event(model::Action::kFree, address, kGib, stream);
  }
  event(model::Action::kSegmentAlloc, 24 * kGib, kGib, 0);
  event(model::Action::kAlloc, 24 * kGib, kGib, 0);
  for (std::uint64_t address : {8 * kGib, 16 * kGib, 24 * kGib}) {
    const bool is_live = address == 24 * kGib;
    model::Segment row;
    row.address = address;
    row.total_size = kGib;
    row.stream = c.maker.builder().stream(address == 24 * kGib ? 0 : stream);
    c.maker.builder().add_segment(
        row, std::vector{tests::TraceMaker::block(
                 address, kGib, kGib,
                 is_live ? model::BlockState::kActiveAllocated : model::BlockState::kInactive)});
  }
  c.report.devices.resize(1);
  c.report.devices[0].reserved.peak_bytes = static_cast<std::int64_t>(3 * kGib);
  c.report.devices[0].requested_active.peak_bytes = static_cast<std::int64_t>(kGib);
  c.report.devices[0].fragmentation.at_reserved_peak.event = 6;
  return c.run(stranded_memory);
}

TEST(CachedMemory, of_another_stream_is_not_blamed_on_sizes) {
  const Findings found = cached_on(7);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("2.0 GiB are cached blocks of other streams"));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("most since train.py:3 (prepare)")));
  EXPECT_EQ(found[0].saving_bytes(), 2 * kGib);
  EXPECT_THAT(steps_text(found[0]), HasSubstr("empty_cache() after train.py:3 (prepare)"));
  EXPECT_THAT(steps_text(found[0]), Not(HasSubstr("Set ")));
  EXPECT_THAT(steps_text(cached_on(0)[0]), HasSubstr("=expandable_segments:True"));
}

}  // namespace
}  // namespace plimsoll::findings
