#include "alerts/batch_fit.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "alerts/detection.h"
#include "tests/support/synthetic_sample.h"

namespace plimsoll::alerts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::kMb;
using tests::synthetic_sample;

// 9000 MB at the peak: 4000 MB are fixed, and 5000 MB belong to 32 items, 156.25 MB each.
MemorySample sample_of_32() {
  MemorySample sample = synthetic_sample();
  sample.batch_size = 32;
  sample.devices[1].at_peak = {{"parameter", 2000 * kMb, 0},
                               {"gradient", 1500 * kMb, 0},
                               {"optimizer_state", 500 * kMb, 0},
                               {"input", 200 * kMb, 0},
                               {"(rest)", 4800 * kMb, 0}};
  return sample;
}

// Of 16,000 MB, others use 12,000 - 10,130 = 1870 MB, which leaves 14,130 MB. Less a tenth that is
// 12,717 MB, of which 8717 MB are for items: 55.8 items.
TEST(BatchFit, counts_by_hand) {
  const MemorySample sample = sample_of_32();
  const auto fit = batch_that_fits(sample, sample.devices[1]);
  ASSERT_TRUE(fit.has_value());
  EXPECT_EQ(fit->batch, 32);
  EXPECT_EQ(fit->peak_bytes, 9000 * kMb);
  EXPECT_EQ(fit->fixed_bytes, 4000 * kMb);
  EXPECT_DOUBLE_EQ(fit->item_bytes, 156.25 * 1024 * 1024);
  EXPECT_EQ(fit->room_bytes, 14'130 * kMb);
  EXPECT_EQ(fit->largest, 55);
  EXPECT_EQ(fit->bytes_at(32), 9000 * kMb);
  EXPECT_EQ(fit->bytes_at(64), 14'000 * kMb);
  EXPECT_THAT(
      batch_evidence(*fit, "iteration", 7),
      ElementsAre("Of the peak of iteration 7, 8.8 GiB, 3.9 GiB do not grow with the batch "
                  "(parameter 2.0 GiB, gradient 1.5 GiB, optimizer_state 500.0 MiB); the "
                  "other 4.9 GiB are 156.2 MiB for each of the 32 items of a batch",
                  "Tensors can use 13.8 GiB of the 15.6 GiB; the rest is not available to them"));
  EXPECT_EQ(batch_advice(*fit),
            "A batch of 55 would fit with 10.0% left free: about 12.3 GiB at the peak, if memory "
            "grows linearly with the batch.");
}

// Workspaces of 800 MB leave 4000 MB for 32 items.
TEST(BatchFit, workspaces_of_libraries_are_fixed) {
  MemorySample sample = sample_of_32();
  sample.devices[1].at_peak.back().size_bytes = 4000 * kMb;
  sample.devices[1].at_peak.push_back({"workspace", 800 * kMb, 0});
  const auto fit = batch_that_fits(sample, sample.devices[1]);
  ASSERT_TRUE(fit.has_value());
  EXPECT_EQ(fit->fixed_bytes, 4800 * kMb);
  EXPECT_DOUBLE_EQ(fit->item_bytes, 131.25 * 1024 * 1024);
}

// An unowned data set of 1000 MB was live at the peak, too: 4000 MB are left for 32 items.
TEST(BatchFit, memory_retained_between_iterations_is_fixed) {
  MemorySample sample = sample_of_32();
  sample.devices[1].categories.push_back({"unknown", 600 * kMb, 1});
  sample.devices[1].categories.push_back({"other", 400 * kMb, 1});
  const auto fit = batch_that_fits(sample, sample.devices[1]);
  EXPECT_EQ(fit->fixed_bytes, 5000 * kMb);
  EXPECT_DOUBLE_EQ(fit->item_bytes, 125.0 * 1024 * 1024);
  EXPECT_EQ(fit->largest, 61);
}

// Without an accelerator, the host's memory counts: of 32,000 MB, others use 8000 - 30 MB.
TEST(BatchFit, for_the_cpu_uses_the_hosts_memory) {
  MemorySample sample = synthetic_sample();
  sample.devices.pop_back();
  sample.batch_size = 10;
  DeviceMemory& cpu = sample.devices[0];
  cpu.peak_bytes = 120 * kMb;
  cpu.at_peak = {{"parameter", 20 * kMb, 0}, {"(rest)", 100 * kMb, 0}};
  cpu.categories = {{"parameter", 20 * kMb, 2}, {"activation", 10 * kMb, 1}};
  const auto fit = batch_that_fits(sample, cpu);
  EXPECT_EQ(fit->room_bytes, (32'000 - 7970) * kMb);
  EXPECT_EQ(fit->largest, (24'030 * 9 / 10 - 20) / 10);
}

TEST(BatchFit, reports_that_not_even_one_item_fits) {
  MemorySample sample = sample_of_32();
  sample.devices[1].total_bytes = 6000 * kMb;
  sample.devices[1].used_bytes = 11'800 * kMb;  // 1670 of it by others
  const auto fit = batch_that_fits(sample, sample.devices[1]);
  EXPECT_EQ(fit->largest, 0);
  EXPECT_THAT(batch_advice(*fit), HasSubstr("No batch fits with 10.0% left free: a batch of 1 "
                                            "needs about 4.1 GiB"));
}

TEST(BatchFit, is_absent_if_a_number_is_missing) {
  const auto knows = [](auto&& change) {
    MemorySample sample = sample_of_32();
    change(sample, sample.devices[1]);
    return batch_that_fits(sample, sample.devices[1]).has_value();
  };
  EXPECT_TRUE(knows([](MemorySample&, DeviceMemory&) {}));
  EXPECT_FALSE(knows([](MemorySample& sample, DeviceMemory&) { sample.batch_size.reset(); }));
  EXPECT_FALSE(knows([](MemorySample& sample, DeviceMemory&) { sample.batch_size = 0; }));
  EXPECT_FALSE(knows([](MemorySample&, DeviceMemory& gpu) { gpu.peak_bytes.reset(); }));
  EXPECT_FALSE(knows([](MemorySample&, DeviceMemory& gpu) { gpu.at_peak.clear(); }));
  EXPECT_FALSE(knows([](MemorySample&, DeviceMemory& gpu) { gpu.total_bytes.reset(); }));
  EXPECT_FALSE(knows([](MemorySample&, DeviceMemory& gpu) { gpu.used_bytes.reset(); }));
  EXPECT_FALSE(knows([](MemorySample&, DeviceMemory& gpu) { gpu.peak_bytes = 4000 * kMb; }));
  EXPECT_FALSE(knows([](MemorySample&, DeviceMemory& gpu) { gpu.used_bytes = 64'000 * kMb; }));
}

// Others now use 4870 MB. The remaining 11,130 MB less a tenth are 10,017 MB; minus 4000 MB, that
// is enough for 38.5 items.
TEST(BatchFit, is_reported_for_a_nearly_full_device) {
  Detector detector;
  MemorySample sample = sample_of_32();
  sample.devices[1].used_bytes = 15'000 * kMb;
  const auto alerts = detector.observe(sample);
  ASSERT_EQ(alerts.size(), 1U);
  EXPECT_THAT(alerts[0].next_step(),
              ::testing::StartsWith("A batch of 38 would fit with 10.0% left free: about 9.7 GiB"));
  ASSERT_GT(alerts[0].steps.size(), 1U);
  EXPECT_THAT(alerts[0].steps[1].text, ::testing::StartsWith("Use mixed precision"));
  EXPECT_THAT(alerts[0].evidence, ::testing::Contains(HasSubstr("each of the 32 items")));
}

TEST(BatchFit, is_reported_after_a_failure_from_earlier_iterations) {
  Detector detector;
  EXPECT_TRUE(detector.observe(sample_of_32()).empty());
  MemorySample failed = sample_of_32();
  failed.iteration = 150;
  failed.ran_out = true;
  failed.ran_out_of = "cuda:0";
  failed.batch_size = 96;
  failed.failed_batch_size = 96;
  failed.devices[1].peak_bytes = 15'500 * kMb;
  const auto alerts = detector.observe(failed);
  ASSERT_EQ(alerts.size(), 1U);
  EXPECT_EQ(alerts[0].id, "out_of_memory");
  EXPECT_EQ(std::ranges::count(kAlertIds, alerts[0].id), 1);
  EXPECT_EQ(alerts[0].severity, FindingSeverity::kCritical);
  EXPECT_EQ(alerts[0].title, "Memory of cuda:0 ran out in iteration 150, whose batch has 96 items");
  EXPECT_THAT(alerts[0].evidence[0], HasSubstr("at most 15.1 GiB"));
  EXPECT_THAT(alerts[0].evidence[1], HasSubstr("Of the peak of iteration 100, 8.8 GiB"));
  EXPECT_THAT(alerts[0].next_step(), ::testing::StartsWith("A batch of 55 would fit"));
  EXPECT_EQ(detector.findings()[0].id, "out_of_memory");
  failed.failed_batch_size.reset();
  EXPECT_EQ(detector.observe(failed)[0].title,
            "Memory of cuda:0 ran out in iteration 150; batches had up to 96 items");
}

// At least 11,000 MB belong to 96 items: 114.6 MB each, so at most 76 fit.
TEST(BatchFit, is_a_bound_if_the_first_iteration_failed) {
  Detector detector;
  MemorySample failed = sample_of_32();
  failed.ran_out = true;
  failed.batch_size = 96;
  failed.devices[1].peak_bytes = 15'000 * kMb;
  failed.devices[1].at_peak.back().size_bytes = 10'800 * kMb;
  const auto alerts = detector.observe(failed);
  EXPECT_THAT(alerts[0].next_step(), ::testing::StartsWith("A batch of 76 would fit"));
  EXPECT_THAT(alerts[0].evidence.back(), HasSubstr("no larger than stated"));
  failed.batch_size.reset();  // no advice without numbers
  EXPECT_THAT(Detector().observe(failed)[0].next_step(),
              ::testing::StartsWith("Record with plimsoll run, or"));
}

// Adam's state, 20 GiB, is created after the first peak, and 32 items do not fit next to it. Of 60
// GiB less a tenth, 35 GiB are fixed, which leaves 19 GiB for items of 30 / 32 GiB each.
TEST(BatchFit, counts_the_state_created_by_the_first_step_after_its_peak) {
  constexpr std::uint64_t kGb = 1024 * kMb;
  MemorySample sample = sample_of_32();
  sample.iteration = 0;
  DeviceMemory& gpu = sample.devices[1];
  gpu.reserved_bytes = gpu.peak_bytes = gpu.used_bytes = 45 * kGb;
  gpu.total_bytes = 60 * kGb;
  gpu.categories = {{"optimizer_state", 20 * kGb, 1}, {"parameter", 10 * kGb, 1}};
  gpu.at_peak = {{"parameter", 10 * kGb, 0}, {"gradient", 5 * kGb, 0}, {"(rest)", 30 * kGb, 0}};
  const auto fit = batch_that_fits(sample, gpu);
  EXPECT_DOUBLE_EQ(fit->item_bytes, 30.0 / 32 * static_cast<double>(kGb));
  EXPECT_EQ(fit->bytes_at(32), 65 * kGb);
  EXPECT_EQ(fit->largest, 20);
  EXPECT_THAT(batch_evidence(*fit, "iteration", 0),
              ::testing::Contains(
                  "Since that peak 20.0 GiB more have been retained (optimizer_state 20.0 GiB)"));
}

// By these numbers 55 items would fit, but the failing request itself is in no peak.
TEST(BatchFit, is_never_a_batch_that_has_failed) {
  MemorySample failed = sample_of_32();
  failed.ran_out = true;
  const auto advice = [&](Detector detector) { return detector.observe(failed)[0].next_step(); };
  Detector experienced;
  EXPECT_TRUE(experienced.observe(sample_of_32()).empty());
  EXPECT_THAT(advice(Detector()),
              ::testing::StartsWith("Use a batch of fewer than 32 items: memory"));
  EXPECT_THAT(advice(experienced),
              ::testing::StartsWith("Use a batch of fewer than 32 items: memory"));
  failed.batch_size = 1;
  EXPECT_THAT(advice(experienced),
              ::testing::StartsWith("Memory ran out with batches of one item"));
}

}  // namespace
}  // namespace plimsoll::alerts
