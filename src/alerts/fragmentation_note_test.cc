#include "alerts/fragmentation_note.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/synthetic_sample.h"

namespace plimsoll::alerts {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tests::kMb;

DeviceMemory device_at(std::uint64_t percent) {
  DeviceMemory device;
  device.name = "cuda:0";
  device.reserved_bytes = 1000 * kMb;
  device.allocated_bytes = (100 - percent) * 10 * kMb;
  return device;
}

std::vector<MemoryAlert> note_at(std::uint64_t percent, std::optional<std::uint64_t> peak = {},
                                 std::vector<MemoryAlert> findings = {}) {
  add_fragmentation_note(device_at(percent), 7000, peak, {}, findings);
  return findings;
}

TEST(FragmentationNote, is_moderate_above_30_percent_and_a_warning_above_40) {
  EXPECT_THAT(note_at(90, 800 * kMb), IsEmpty());
  EXPECT_THAT(note_at(90, 700 * kMb), IsEmpty());
  for (const std::uint64_t percent : {31U, 40U}) {
    const auto findings = note_at(90, (100 - percent) * 10 * kMb);
    ASSERT_EQ(findings.size(), 1U) << percent;
    EXPECT_EQ(findings[0].severity, FindingSeverity::kInfo);
    EXPECT_THAT(findings[0].title, HasSubstr("is moderate: " + std::to_string(percent) + ".0%"));
  }
  const auto high = note_at(90, 590 * kMb);
  ASSERT_EQ(high.size(), 1U);
  EXPECT_EQ(high[0].severity, FindingSeverity::kWarning);
  EXPECT_THAT(high[0].title, HasSubstr("is high: 41.0%"));
  EXPECT_EQ(high[0].iteration, 7000);
  EXPECT_EQ(high[0].saving_bytes(), 410 * kMb);
}

// Samples after backward, when the activations are freed, show a cache that the next peak needs.
TEST(FragmentationNote, a_cache_that_the_peak_needs_is_not_fragmentation) {
  EXPECT_THAT(note_at(95, 1000 * kMb), IsEmpty());
  EXPECT_THAT(note_at(95, 1200 * kMb), IsEmpty());
}

TEST(FragmentationNote, without_a_peak_it_is_information) {
  EXPECT_THAT(note_at(30), IsEmpty());
  const auto findings = note_at(60);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, FindingSeverity::kInfo);
  EXPECT_THAT(findings[0].title, HasSubstr("60.0% of reserved memory is not allocated at the end"));
  EXPECT_THAT(findings[0].evidence, Contains(HasSubstr("no peak")));
  EXPECT_EQ(findings[0].saving_bytes(), 0U);
}

TEST(FragmentationNote, names_what_to_change_and_why_empty_cache_does_not_help) {
  for (const std::uint64_t peak : {650U, 500U}) {
    const auto findings = note_at(60, peak * kMb);
    EXPECT_THAT(findings[0].next_step(), HasSubstr("expandable_segments:True"));
    EXPECT_THAT(findings[0].evidence, Contains(HasSubstr("empty_cache() does not fix it")));
    EXPECT_EQ(findings[0].saving_bytes(), (1000 - peak) * kMb);
  }
}

TEST(FragmentationNote, raises_the_detectors_finding_and_does_not_repeat_it) {
  MemoryAlert known;
  known.id = "fragmentation";
  known.device = "cuda:0";
  known.severity = FindingSeverity::kInfo;
  known.title = "the detector's";
  MemoryAlert other;
  other.id = "memory_growth";
  other.severity = FindingSeverity::kInfo;
  const auto findings = note_at(60, 400 * kMb, {other, known});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].title, "the detector's");
  EXPECT_EQ(findings[0].severity, FindingSeverity::kWarning);
  EXPECT_THAT(findings[0].evidence, Contains(HasSubstr("empty_cache() does not fix it")));
  EXPECT_EQ(note_at(35, {}, {other, known}).size(), 2U);
}

TEST(FragmentationNote, ignores_small_devices_and_the_cpu) {
  std::vector<MemoryAlert> findings;
  DeviceMemory device = device_at(60);
  device.reserved_bytes = 10 * kMb;
  device.allocated_bytes = kMb;
  add_fragmentation_note(device, 1, {}, {}, findings);
  add_fragmentation_note(tests::made_cpu(), 1, {}, {}, findings);
  EXPECT_THAT(findings, IsEmpty());
}

}  // namespace
}  // namespace plimsoll::alerts
