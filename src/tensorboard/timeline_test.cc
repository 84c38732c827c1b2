#include "tensorboard/timeline.h"

#include <cstdint>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensorboard/timeline_picture.h"
#include "tests/support/synthetic_sample.h"

namespace plimsoll::tensorboard {
namespace {

using ::testing::IsEmpty;
using ::testing::StartsWith;
using tests::kMb;

MemorySample sample_at(std::int64_t iteration, std::uint64_t activation_mb) {
  MemorySample sample;
  sample.iteration = iteration;
  DeviceMemory gpu;
  gpu.name = "cuda:0";
  gpu.categories = {{"parameter", 10 * kMb, 1}, {"activation", activation_mb * kMb, 1}};
  gpu.reserved_bytes = (activation_mb + 20) * kMb;
  gpu.peak_bytes = (activation_mb + 15) * kMb;
  sample.devices = {tests::made_cpu(), gpu};
  return sample;
}

std::uint64_t sum(const TimelineColumn& column) {
  std::uint64_t bytes = 0;
  for (const std::uint64_t each : column.category_bytes) bytes += each;
  return bytes;
}

TEST(Timeline, has_a_column_for_each_sample_of_the_accelerator) {
  Timeline timeline;
  timeline.add(sample_at(0, 5));
  timeline.add(sample_at(50, 7));
  ASSERT_EQ(timeline.columns().size(), 2U);
  EXPECT_EQ(timeline.devices(), "cuda:0");
  const TimelineColumn& last = timeline.columns()[1];
  EXPECT_EQ(last.iteration, 50);
  EXPECT_EQ(last.live_bytes, 17 * kMb);
  EXPECT_EQ(sum(last), 17 * kMb);
  EXPECT_EQ(last.reserved_bytes, 27 * kMb);
  EXPECT_EQ(last.peak_bytes, 22 * kMb);
}

// The highest sample is never lost, whatever the number of samples, and a column's categories are
// those of one sample.
TEST(Timeline, is_bounded_and_keeps_every_maximum) {
  for (const std::int64_t count : {1, 511, 512, 513, 1024, 1025, 20'000}) {
    for (const std::int64_t highest : {std::int64_t{0}, count / 2, count - 1}) {
      Timeline timeline;
      for (std::int64_t each = 0; each < count; ++each) {
        timeline.add(
            sample_at(each, each == highest ? 1'000 : static_cast<std::uint64_t>(each % 9)));
      }
      ASSERT_LE(timeline.columns().size(), Timeline::kMostColumns);
      EXPECT_EQ(timeline.last_iteration(), count - 1);
      std::size_t found = 0;
      for (std::size_t at = 0; at < timeline.columns().size(); ++at) {
        const TimelineColumn& column = timeline.columns()[at];
        const std::int64_t end =
            at + 1 < timeline.columns().size() ? timeline.columns()[at + 1].iteration : count;
        ASSERT_LT(column.iteration, end);
        EXPECT_EQ(sum(column), column.live_bytes);
        if (column.live_bytes != 1'010 * kMb) continue;
        ++found;
        EXPECT_LE(column.iteration, highest);
        EXPECT_LT(highest, end);
        EXPECT_EQ(column.peak_iteration, highest);
        EXPECT_EQ(column.peak_bytes, 1'015 * kMb);
        EXPECT_EQ(column.reserved_bytes, 1'020 * kMb);
      }
      EXPECT_EQ(found, 1U) << count << " " << highest;
    }
  }
}

TEST(Timeline, continues_where_a_loop_starts_again) {
  Timeline timeline;
  const std::int64_t last = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t iteration :
       {std::int64_t{3}, std::int64_t{0}, std::int64_t{1}, last, last}) {
    timeline.add(sample_at(iteration, 1));
  }
  ASSERT_EQ(timeline.columns().size(), 5U);
  EXPECT_EQ(timeline.columns()[1].iteration, 4);
  EXPECT_EQ(timeline.columns()[2].iteration, 5);
  EXPECT_EQ(timeline.columns()[4].iteration, last);
}

TEST(Timeline, is_about_the_cpu_until_an_accelerator_is_used) {
  Timeline timeline;
  MemorySample sample;
  sample.devices = {tests::made_cpu()};
  timeline.add(sample);
  EXPECT_EQ(timeline.devices(), "cpu");
  EXPECT_EQ(timeline.columns().front().live_bytes, 30 * kMb);
  timeline.add(sample_at(1, 5));
  EXPECT_EQ(timeline.devices(), "cuda:0");
  ASSERT_EQ(timeline.columns().size(), 1U);
  EXPECT_EQ(timeline.columns().front().live_bytes, 15 * kMb);
}

TEST(Timeline, adds_up_several_accelerators_except_their_peaks) {
  MemorySample sample = sample_at(1, 5);
  sample.devices.push_back(sample.devices[1]);
  sample.devices[2].name = "cuda:1";
  Timeline timeline;
  timeline.add(sample);
  EXPECT_EQ(timeline.devices(), "2 devices");
  EXPECT_EQ(timeline.columns().front().live_bytes, 30 * kMb);
  EXPECT_EQ(timeline.columns().front().reserved_bytes, 50 * kMb);
  EXPECT_EQ(timeline.columns().front().peak_bytes, 0U);
}

TEST(Timeline, knows_the_allocators_figure_if_nothing_is_recorded) {
  MemorySample sample;
  sample.devices.emplace_back().name = "cuda:0";
  sample.devices[0].allocated_bytes = 7;
  Timeline timeline;
  timeline.add(sample);
  EXPECT_EQ(timeline.columns().front().live_bytes, 7U);
  EXPECT_EQ(sum(timeline.columns().front()), 7U);
}

TEST(TimelinePicture, is_a_png_for_any_timeline_and_empty_without_one) {
  Timeline timeline;
  EXPECT_THAT(timeline_png(timeline), IsEmpty());
  timeline.add(MemorySample{});
  EXPECT_THAT(timeline_png(timeline), IsEmpty());
  MemorySample zero;
  zero.devices.emplace_back().name = "cpu";
  timeline.add(zero);
  EXPECT_THAT(timeline_png(timeline), StartsWith("\x89PNG"));
  MemorySample huge;
  huge.iteration = std::numeric_limits<std::int64_t>::max();
  huge.devices.emplace_back().name = "cpu";
  huge.devices[0].categories = {{"parameter", std::numeric_limits<std::uint64_t>::max(), 1}};
  timeline.add(huge);
  EXPECT_THAT(timeline_png(timeline), StartsWith("\x89PNG"));
}

}  // namespace
}  // namespace plimsoll::tensorboard
