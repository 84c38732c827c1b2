// Growth on devices whose allocations are known; detection_test.cc tests growth of sums.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "alerts/detection.h"
#include "alerts/survivors.h"
#include "tests/support/synthetic_sample.h"

namespace plimsoll::alerts {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using tests::kMb;

// Adapts sample i to the test case.
using SampleChange = std::function<void(MemorySample& sample, DeviceMemory& gpu, std::uint64_t i)>;

std::vector<std::string> alert_ids(const std::vector<MemoryAlert>& alerts) {
  std::vector<std::string> names;
  for (const MemoryAlert& alert : alerts) names.push_back(alert.id);
  return names;
}

// The alerts for a run of synthetic samples, ten iterations apart.
std::vector<MemoryAlert> run_unrecorded(std::uint64_t samples, const SampleChange& change) {
  Detector detector;
  std::vector<MemoryAlert> alerts;
  for (std::uint64_t i = 0; i < samples; ++i) {
    MemorySample sample = tests::synthetic_sample();
    sample.iteration = static_cast<std::int64_t>(i) * 10;
    change(sample, sample.devices[1], i);
    for (MemoryAlert& alert : detector.observe(sample)) alerts.push_back(std::move(alert));
  }
  return alerts;
}

// The same with the GPU's allocations known; each sample leaves `kept_bytes` of them behind, or
// only each `every`th does.
std::vector<MemoryAlert> run_recorded(std::uint64_t samples, std::uint64_t kept_bytes,
                                      const SampleChange& change,
                                      const DetectionOptions& options = {},
                                      std::uint64_t every = 1) {
  Detector detector(options);
  Survivors survivors(options.growth_percent);
  std::vector<plimsoll_live> rows;
  plimsoll_usage gpu{};
  gpu.device_type = PLIMSOLL_DEVICE_CUDA;
  gpu.device = 1;
  std::vector<MemoryAlert> alerts;
  for (std::uint64_t i = 0; i < samples; ++i) {
    MemorySample sample = tests::synthetic_sample();
    sample.iteration = static_cast<std::int64_t>(i) * 10;
    change(sample, sample.devices[1], i);
    if (kept_bytes > 0 && (every == 1 || (i > 0 && i % every == 0))) {
      plimsoll_live& row = rows.emplace_back();
      row.serial = i;
      row.size_bytes = kept_bytes;
      row.device = 1;
      row.phase = PLIMSOLL_PHASE_FORWARD;
    }
    survivors.observe(sample.iteration, rows, {&gpu, 1});
    for (MemoryAlert& alert : detector.observe(sample, survivors))
      alerts.push_back(std::move(alert));
  }
  return alerts;
}

const SampleChange kLongerInputs = [](MemorySample&, DeviceMemory& gpu, std::uint64_t i) {
  gpu.categories[0].size_bytes += i * 50 * kMb;  // activations
  gpu.live_bytes += i * 50 * kMb;
  gpu.large_count += i;
  gpu.peak_bytes = *gpu.peak_bytes + i * 50 * kMb;
};

TEST(GrowthRules, ignores_growth_that_is_not_retained) {
  EXPECT_THAT(alert_ids(run_unrecorded(60, kLongerInputs)), Contains("activations_stay"));
  EXPECT_THAT(run_recorded(60, 0, kLongerInputs), IsEmpty());
}

TEST(GrowthRules, reports_growing_peaks_that_will_not_fit) {
  const auto alerts = run_recorded(60, 0, [](MemorySample& s, DeviceMemory& gpu, std::uint64_t i) {
    kLongerInputs(s, gpu, i);
    gpu.live_bytes = 8000 * kMb;
    gpu.used_bytes = 12'000 * kMb + i * 50 * kMb;
  });
  ASSERT_THAT(alert_ids(alerts), Contains("memory_growth"));
  EXPECT_EQ(alerts[0].subject, "peak");
}

TEST(GrowthRules, names_what_is_retained_and_the_number_of_allocations) {
  const SampleChange none = [](MemorySample&, DeviceMemory&, std::uint64_t) {};
  const auto alerts = run_recorded(21, 200 * kMb, none);
  ASSERT_THAT(alert_ids(alerts), ElementsAre("activations_stay"));
  EXPECT_EQ(alerts[0].subject, "activation");
  EXPECT_EQ(alerts[0].title,
            "Activations on cuda:0 keep growing: 2.5 GiB more from iteration 40 to 170, 20.0 MiB "
            "per iteration");
  EXPECT_THAT(alerts[0].evidence,
              ElementsAre("13 allocations made in these iterations are still live at iteration 190",
                          "Code outside of layers leaves most: 20.0 MiB per iteration, in 13 "
                          "allocations",
                          "At this rate, the 3.9 GiB left on the device will last for 200 "
                          "iterations"));
  EXPECT_EQ(alerts[0].saving_bytes(), kMb * 13 * 200);
}

TEST(GrowthRules, states_the_jumps_in_which_memory_grows) {
  const SampleChange none = [](MemorySample&, DeviceMemory&, std::uint64_t) {};
  const auto alerts = run_recorded(24, 1200 * kMb, none, {}, 5);
  ASSERT_THAT(alert_ids(alerts), ElementsAre("activations_stay"));
  EXPECT_EQ(alerts[0].title,
            "Activations on cuda:0 keep growing: 3.5 GiB more from iteration 40 to 150, 24.0 MiB "
            "per iteration");
  ASSERT_THAT(alerts[0].evidence, ::testing::SizeIs(4));
  EXPECT_EQ(alerts[0].evidence[1],
            "It grew in 3 jumps of 1.2 GiB on average, as if each evaluation or epoch left "
            "something behind");
}

// A list that an epoch fills and the next one replaces, in a log.
TEST(GrowthRules, counts_what_was_live_at_the_largest_sample_of_a_log) {
  Detector detector;
  for (std::uint64_t i = 0; i < 74; ++i) {
    MemorySample sample = tests::synthetic_sample();
    sample.iteration = static_cast<std::int64_t>(i);
    DeviceMemory& gpu = sample.devices[1];
    gpu.categories[0].size_bytes += i % 25 * 100 * kMb;  // activations
    gpu.growth_bytes = 100 * kMb;
    gpu.growing = {{"activation", 100 * kMb, 20}};
    static_cast<void>(detector.observe(sample));
  }
  const auto findings = detector.findings();
  ASSERT_THAT(alert_ids(findings), ElementsAre("activations_stay"));
  EXPECT_EQ(findings[0].saving_bytes(), 2400 * kMb);
  EXPECT_THAT(findings[0].evidence[0], ::testing::StartsWith("It was between 3.9 GiB and 6.2 GiB"));
}

TEST(GrowthRules, requires_many_samples_if_little_is_retained) {
  const SampleChange none = [](MemorySample&, DeviceMemory&, std::uint64_t) {};
  EXPECT_THAT(run_recorded(95, 2 * kMb, none), IsEmpty());
  EXPECT_THAT(alert_ids(run_recorded(97, 2 * kMb, none)), ElementsAre("activations_stay"));
  EXPECT_THAT(run_recorded(95, 2 * kMb, none, {.growth_percent = 0.2}), Not(IsEmpty()));
}

}  // namespace
}  // namespace plimsoll::alerts
