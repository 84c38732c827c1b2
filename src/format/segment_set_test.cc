#include "format/segment_set.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::format {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SegmentSetTest : public testing::Test {
 protected:
  void emit(std::uint8_t action, std::uint64_t address, std::uint64_t size,
            std::uint8_t device = 1) {
    Segment event;
    event.action = action;
    event.device = device;
    event.address = address;
    event.size_bytes = size;
    bytes += set.apply(event);
  }
  // "1:1000+200"; mapped ranges have an "m".
  std::vector<std::string> held() const {
    std::vector<std::string> all;
    set.for_each([&](const Segment& each) {
      all.push_back(std::to_string(each.device) + ":" + std::to_string(each.address) + "+" +
                    std::to_string(each.size_bytes) + (each.action == kSegmentMap ? "m" : ""));
    });
    return all;
  }

  SegmentSet set;
  std::uint64_t bytes = 0;
};

TEST_F(SegmentSetTest, mapping_a_mapped_range_counts_it_once) {
  emit(kSegmentMap, 100, 40);
  emit(kSegmentMap, 120, 20);  // its unmap was lost
  EXPECT_EQ(bytes, 40u);
  emit(kSegmentMap, 90, 20);
  EXPECT_EQ(bytes, 50u);
  EXPECT_THAT(held(), ElementsAre("1:90+20m", "1:110+10m", "1:120+20m"));
  emit(kSegmentUnmap, 0, 1000);
  EXPECT_EQ(bytes, 0u);
  EXPECT_THAT(held(), IsEmpty());
}

TEST_F(SegmentSetTest, a_new_segment_replaces_what_it_covers) {
  emit(kSegmentAlloc, 100, 40);
  emit(kSegmentAlloc, 140, 20);
  emit(kSegmentMap, 160, 40);
  emit(kSegmentAlloc, 100, 40, 2);
  EXPECT_EQ(bytes, 140u);
  emit(kSegmentAlloc, 150, 20);
  EXPECT_EQ(bytes, 130u);
  EXPECT_THAT(held(), ElementsAre("1:100+40", "1:150+20", "2:100+40", "1:170+30m"));
  emit(kSegmentMap, 100, 1);
  EXPECT_EQ(bytes, 91u);
  EXPECT_THAT(held(), ElementsAre("1:150+20", "2:100+40", "1:100+1m", "1:170+30m"));
}

TEST_F(SegmentSetTest, whole_segments_are_freed_and_mapped_ranges_unmapped) {
  emit(kSegmentAlloc, 100, 40);
  emit(kSegmentMap, 200, 40);
  emit(kSegmentUnmap, 100, 40);
  emit(kSegmentFree, 200, 40);
  EXPECT_EQ(bytes, 80u);
  emit(kSegmentFree, 100, 1);  // the whole segment
  EXPECT_EQ(bytes, 40u);
}

TEST_F(SegmentSetTest, sizes_may_extend_past_the_address_space) {
  emit(kSegmentMap, UINT64_MAX - 9, 100);
  EXPECT_EQ(bytes, 100u);
  emit(kSegmentUnmap, 0, UINT64_MAX);
  EXPECT_EQ(bytes, 0u);
  emit(kSegmentAlloc, 100, 40);
  emit(kSegmentMap, 200, 40);
  emit(kSegmentMap, UINT64_MAX - 9, UINT64_MAX);
  emit(kSegmentUnmap, 210, UINT64_MAX);
  EXPECT_THAT(held(), ElementsAre("1:100+40", "1:200+10m"));
  EXPECT_EQ(bytes, 50u);
}

// A file can contain this. It would take half a minute if each unmap visited every whole segment.
TEST_F(SegmentSetTest, unmapping_everything_visits_only_mapped_ranges) {
  constexpr std::uint64_t kCount = 40'000, kBytes = 512;
  for (std::uint64_t i = 0; i < kCount; ++i) emit(kSegmentAlloc, i * kBytes, kBytes);
  for (std::uint64_t i = 0; i < kCount; ++i) emit(kSegmentUnmap, 0, std::uint64_t{1} << 60);
  EXPECT_EQ(bytes, kCount * kBytes);
}

}  // namespace
}  // namespace plimsoll::format
