#include "analysis/device/device.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/run_pass.h"
#include "tests/support/timeline_pass.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::device {
namespace {

using model::Action;
using tests::TraceMaker;

constexpr model::Device kCuda{model::DeviceType::kCuda, 0};
constexpr model::Device kCpu{model::DeviceType::kCpu, -1};

void read(TraceMaker& maker, std::uint64_t free_bytes, std::int64_t time_ns,
          model::Device device = kCuda) {
  model::DeviceReading reading{.device = device, .time_ns = time_ns};
  reading.figures.total_bytes = 1000;
  reading.figures.free_bytes = free_bytes;
  reading.figures.own_bytes = 700;
  maker.builder().add_reading(std::move(reading));
}

std::vector<report::DeviceBarReport> bars(TraceMaker& maker) {
  const auto report =
      tests::run_passes(maker.finish(), tests::passes(make(), tests::timeline_pass()));
  for (const report::DeviceReport& device : report.devices) {
    if (device.device_type == "cuda") return device.bars;
  }
  return {};
}

std::string text(const report::DeviceBarReport& bar) {
  std::string text = bar.point + " " + std::to_string(bar.used_bytes) + ":";
  for (const report::BarPart& part : bar.parts) {
    text += " " + part.kind + " " + std::to_string(part.bytes);
  }
  return text;
}

TEST(Device, the_fullest_reading_is_reported_with_the_allocators_totals) {
  TraceMaker maker;
  maker.on(kCuda).event(Action::kSegmentAlloc, 4096, 500).alloc(4096, 300);
  read(maker, 400, 1'000);
  maker.on(kCpu).alloc(64, 7);
  maker.on(kCuda).event(Action::kSegmentAlloc, 8192, 100).alloc(8192, 100);
  read(maker, 250, 2'000);
  maker.free(4096, 300).event(Action::kSegmentFree, 4096, 500);
  read(maker, 800, 3'000);
  const auto reported = bars(maker);
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_EQ(text(reported[0]), "fullest 750: tensors 400 cached 200 outside 100 unexplained 50");
  EXPECT_EQ(reported[0].readings, 3u);
  EXPECT_EQ(reported[0].time_ns, 2'000);
  EXPECT_EQ(reported[0].event, 4u);
  EXPECT_EQ(reported[0].total_bytes, 1000u);
}

TEST(Device, a_failure_is_reported_from_the_reading_taken_immediately) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  TraceMaker maker;
  maker.on(kCuda).event(Action::kSegmentAlloc, 4096, 500);
  read(maker, 100, kSecond);
  maker.at(10 * kSecond).event(Action::kOom, 300, 999);
  read(maker, 300, 10 * kSecond + 5'000);
  read(maker, 350, 11 * kSecond);
  const auto reported = bars(maker);
  ASSERT_EQ(reported.size(), 2u);
  EXPECT_EQ(text(reported[0]), "fullest 900: tensors 0 cached 500 outside 200 unexplained 200");
  EXPECT_EQ(text(reported[1]), "oom 700: tensors 0 cached 500 outside 200 unexplained 0");
}

TEST(Device, a_failure_without_a_reading_has_no_bar) {
  TraceMaker maker;
  maker.on(kCuda).event(Action::kSegmentAlloc, 4096, 500);
  read(maker, 100, 0);
  maker.at(60'000'000'000).event(Action::kOom, 300, 999);
  EXPECT_EQ(bars(maker).size(), 1u);
}

TEST(Device, without_events_tensors_are_not_reported) {
  TraceMaker maker;
  read(maker, 200, 1'000);
  EXPECT_EQ(text(bars(maker).at(0)), "fullest 800: outside 700 unexplained 100");
}

TEST(Device, an_invalid_reading_is_omitted) {
  TraceMaker maker;
  maker.on(kCuda).alloc(64, 10);
  read(maker, 1001, 1'000);
  EXPECT_TRUE(bars(maker).empty());
}

}  // namespace
}  // namespace plimsoll::analysis::device
