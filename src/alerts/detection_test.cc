#include "alerts/detection.h"

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "alerts/detection_rules.h"
#include "tests/support/steps_text.h"
#include "tests/support/synthetic_sample.h"

namespace plimsoll::alerts {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using tests::kMb;

// A run of synthetic samples, ten iterations apart; `change` adapts sample i to the test case.
using Change = std::function<void(MemorySample& sample, DeviceMemory& gpu, std::uint64_t i)>;

struct Watched {
  Detector detector;
  std::vector<MemoryAlert> alerts;
  std::set<std::int64_t> reported_at;  // sample numbers
};

Watched run(std::uint64_t samples, const Change& change, const DetectionOptions& options = {}) {
  Watched result{Detector(options), {}, {}};
  for (std::uint64_t i = 0; i < samples; ++i) {
    MemorySample sample = tests::synthetic_sample();
    sample.iteration = static_cast<std::int64_t>(i) * 10;
    change(sample, sample.devices[1], i);
    for (MemoryAlert& alert : result.detector.observe(sample)) {
      EXPECT_THAT(kAlertIds, Contains(alert.id));
      result.reported_at.insert(static_cast<std::int64_t>(i));
      result.alerts.push_back(std::move(alert));
    }
  }
  return result;
}

void grow(DeviceMemory& gpu, const std::string& category, std::uint64_t bytes) {
  for (MemoryShare& share : gpu.categories) {
    if (share.name == category) share.size_bytes += bytes;
  }
  gpu.live_bytes += bytes;
}

std::vector<std::string> ids(const std::vector<MemoryAlert>& alerts) {
  std::vector<std::string> names;
  for (const MemoryAlert& alert : alerts) names.push_back(alert.id);
  return names;
}

TEST(Detection, finds_nothing_in_a_healthy_run) {
  const Watched result = run(200, [](MemorySample& sample, DeviceMemory& gpu, std::uint64_t i) {
    // Steps of different sizes, an unusual first one, and a falling loss.
    grow(gpu, "activation", (i * 5 % 13) * 100 * kMb);
    if (i == 0) gpu.categories.pop_back();
    sample.loss = 1.0 / static_cast<double>(i + 1);
  });
  EXPECT_THAT(result.alerts, IsEmpty());
  EXPECT_THAT(result.detector.findings(), IsEmpty());
}

TEST(Detection, finds_retained_activations_with_their_rate_and_place) {
  const Watched result = run(100, [](MemorySample&, DeviceMemory& gpu, std::uint64_t i) {
    grow(gpu, "activation", i * 50 * kMb);
    gpu.layers[2].size_bytes += i * 50 * kMb;
  });
  ASSERT_THAT(result.alerts, Not(IsEmpty()));
  EXPECT_EQ(result.alerts[0].id, "activations_stay");
  const auto findings = result.detector.findings();
  ASSERT_THAT(ids(findings), ElementsAre("activations_stay"));
  const MemoryAlert& finding = findings[0];
  EXPECT_EQ(finding.device, "cuda:0");
  EXPECT_EQ(finding.subject, "activation");
  EXPECT_THAT(finding.title, HasSubstr("Activations on cuda:0 keep growing: "));
  EXPECT_THAT(finding.title, HasSubstr(", 5.0 MiB per iteration"));
  EXPECT_THAT(finding.evidence, Contains(HasSubstr("(Kendall's tau 1.00)")));
  EXPECT_THAT(finding.evidence, Contains(HasSubstr("The layer that grew most is unet.up, by ")));
  EXPECT_THAT(
      finding.evidence,
      Contains("At this rate, the 3.9 GiB left on the device will last for 800 iterations"));
  EXPECT_THAT(finding.next_step(), HasSubstr("loss.item()"));
  EXPECT_GE(finding.saving_bytes(), 3000 * kMb);
}

TEST(Detection, names_what_grows_by_its_category) {
  const auto found = [](const char* category) {
    return ids(run(60, [&](MemorySample&, DeviceMemory& gpu, std::uint64_t i) {
                 grow(gpu, category, i * 50 * kMb);
               }).detector.findings());
  };
  EXPECT_THAT(found("gradient"), ElementsAre("gradients_accumulate"));
  EXPECT_THAT(found("optimizer_state"), ElementsAre("memory_growth"));
  EXPECT_THAT(found("parameter"), ElementsAre("memory_growth"));
}

TEST(Detection, reports_a_growing_model_as_one_finding) {
  const Watched result = run(60, [](MemorySample&, DeviceMemory& gpu, std::uint64_t i) {
    for (const char* category : {"parameter", "gradient", "optimizer_state"}) {
      grow(gpu, category, i * 50 * kMb);
    }
  });
  const auto findings = result.detector.findings();
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].subject, "parameter");
  EXPECT_THAT(findings[0].next_step(), HasSubstr("The model itself grows"));
}

TEST(Detection, ignores_growth_that_has_stopped_or_is_small) {
  EXPECT_THAT(run(100,
                  [](MemorySample&, DeviceMemory& gpu, std::uint64_t i) {
                    grow(gpu, "activation", std::min<std::uint64_t>(i, 40) * 50 * kMb);
                  })
                  .detector.findings(),
              IsEmpty());
  EXPECT_THAT(run(100,
                  [](MemorySample&, DeviceMemory& gpu, std::uint64_t i) {
                    grow(gpu, "activation", i * 5 * kMb);  // 500 MB of 8000
                  })
                  .detector.findings(),
              IsEmpty());
}

TEST(Detection, ignores_growth_that_slows_down) {
  const Watched result = run(100, [](MemorySample&, DeviceMemory& gpu, std::uint64_t i) {
    const double share = 1 - std::exp(-static_cast<double>(i) / 8);
    grow(gpu, "activation", static_cast<std::uint64_t>(share * 4000) * kMb);
  });
  EXPECT_THAT(result.alerts, IsEmpty());
}

TEST(Detection, finds_growth_that_begins_late) {
  const Watched result = run(540, [](MemorySample&, DeviceMemory& gpu, std::uint64_t i) {
    grow(gpu, "activation", i > 500 ? (i - 500) * 50 * kMb : 0);
  });
  EXPECT_THAT(ids(result.detector.findings()), ElementsAre("activations_stay"));
}

TEST(Detection, uses_the_total_if_categories_are_unknown) {
  const Watched result = run(60,
                             [](MemorySample& sample, DeviceMemory& gpu, std::uint64_t i) {
                               DeviceMemory plain;
                               plain.name = "gpu:3";
                               plain.used_bytes = 1000 * kMb + i * 10 * kMb;
                               gpu = plain;
                               sample.devices.erase(sample.devices.begin());
                             },
                             {.step = "sample"});
  const auto findings = result.detector.findings();
  ASSERT_THAT(ids(findings), ElementsAre("memory_growth"));
  EXPECT_THAT(findings[0].title, HasSubstr("Memory on gpu:3 keeps growing: "));
  EXPECT_THAT(findings[0].title, HasSubstr("MiB per sample"));
}

TEST(Detection, reports_the_host_only_if_tensors_do_not_explain_it) {
  const auto found = [](std::uint64_t of_tensors) {
    return run(60,
               [=](MemorySample& sample, DeviceMemory&, std::uint64_t i) {
                 sample.host.rss_bytes = 3000 * kMb + i * 20 * kMb;
                 sample.host.total_bytes.reset();
                 grow(sample.devices[0], "input", i * of_tensors);
               })
        .detector.findings();
  };
  const auto outside = found(2 * kMb);
  ASSERT_THAT(ids(outside), ElementsAre("memory_growth", "memory_growth"));
  EXPECT_EQ(outside[0].device, "host");
  EXPECT_EQ(outside[0].subject, "process");
  EXPECT_THAT(outside[0].evidence, Contains("Of that, CPU tensors explain 88.0 MiB"));
  const auto tensors = found(18 * kMb);
  ASSERT_THAT(ids(tensors), ElementsAre("memory_growth"));
  EXPECT_EQ(tensors[0].device, "cpu");
  EXPECT_EQ(tensors[0].subject, "input");
}

TEST(Detection, reports_workers_that_grow_and_not_those_that_are_restarted) {
  const auto found = [](const std::function<std::uint64_t(std::uint64_t)>& of_workers) {
    return run(60,
               [&](MemorySample& sample, DeviceMemory&, std::uint64_t i) {
                 sample.host.total_bytes.reset();
                 sample.host.worker_count = 4;
                 sample.host.workers_bytes = of_workers(i);
               })
        .detector.findings();
  };
  const auto leak = found([](std::uint64_t i) { return 400 * kMb + i * 4 * kMb; });
  ASSERT_THAT(ids(leak), ElementsAre("memory_growth"));
  EXPECT_EQ(leak[0].device, "host");
  EXPECT_EQ(leak[0].subject, "workers");
  EXPECT_THAT(leak[0].title, HasSubstr("Memory of workers on host keeps growing: 176.0 MiB more"));
  EXPECT_THAT(leak[0].title, HasSubstr(", 409.6 KiB per iteration"));
  EXPECT_THAT(found([](std::uint64_t i) { return 400 * kMb + (i % 15) * 20 * kMb; }), IsEmpty());
  EXPECT_THAT(found([](std::uint64_t i) { return 40 * kMb + i * kMb; }), IsEmpty());  // < 64 MiB
}

TEST(Detection, finds_growing_peaks_without_retained_memory) {
  const auto found = [](std::uint64_t of_live) {
    return run(60,
               [=](MemorySample&, DeviceMemory& gpu, std::uint64_t i) {
                 gpu.peak_bytes = 9000 * kMb + i * 50 * kMb;
                 grow(gpu, "activation", i * of_live);
               })
        .detector.findings();
  };
  const auto peaks = found(0);
  ASSERT_THAT(ids(peaks), ElementsAre("memory_growth"));
  EXPECT_EQ(peaks[0].subject, "peak");
  EXPECT_THAT(peaks[0].title, HasSubstr("Peaks on cuda:0 keep growing: "));
  EXPECT_THAT(peaks[0].evidence,
              Contains("Memory live between iterations is 7.8 GiB and does not explain it"));
  EXPECT_THAT(ids(found(40 * kMb)), ElementsAre("activations_stay"));
}

TEST(Detection, repeats_an_alert_only_after_a_while_or_if_it_gets_worse) {
  const auto leak = [](MemorySample&, DeviceMemory& gpu, std::uint64_t i) {
    grow(gpu, "activation", i * 200 * kMb);
  };
  const auto full = [](MemorySample&, DeviceMemory& gpu, std::uint64_t) {
    gpu.used_bytes = *gpu.total_bytes / 20 * 19;
  };
  EXPECT_THAT(run(40, full, {.alert_every = 1000, .times_worse = 1e9}).reported_at, SizeIs(1));
  EXPECT_THAT(run(40, full, {.alert_every = 10, .times_worse = 1e9}).reported_at,
              ElementsAre(0, 10, 20, 30));
  // Growth is repeated only if it gets worse.
  EXPECT_THAT(run(60, leak, {.alert_every = 10, .times_worse = 1e9}).reported_at, SizeIs(1));
  EXPECT_THAT(run(90, leak, {.alert_every = 1000, .times_worse = 2}).reported_at.size(),
              ::testing::AllOf(::testing::Ge(3U), ::testing::Le(6U)));
}

TEST(Detection, finds_an_increasing_number_of_large_tensors) {
  const Watched result =
      run(40, [](MemorySample&, DeviceMemory& gpu, std::uint64_t i) { gpu.large_count = 2 + i; });
  const auto findings = result.detector.findings();
  ASSERT_THAT(ids(findings), ElementsAre("more_large_tensors"));
  EXPECT_THAT(findings[0].evidence, Contains("The largest is 1.0 GiB, [64, 64, 256, 256] float32, "
                                             "activation, created by unet.down.0"));
}

TEST(Detection, finds_fragmentation_but_not_a_cache_that_the_peak_needs) {
  const auto with_peak = [](std::optional<std::uint64_t> peak) {
    return run(20,
               [=](MemorySample&, DeviceMemory& gpu, std::uint64_t i) {
                 gpu.allocated_bytes = i == 7 ? 2000 * kMb : 9000 * kMb;
                 gpu.peak_bytes = peak;
               })
        .detector.findings();
  };
  EXPECT_THAT(with_peak(10'000 * kMb), IsEmpty());
  const auto unused = with_peak(4130 * kMb);
  ASSERT_THAT(ids(unused), ElementsAre("fragmentation"));
  EXPECT_EQ(unused[0].iteration, 70);
  EXPECT_EQ(unused[0].saving_bytes(), 6000 * kMb);
  EXPECT_THAT(unused[0].title, HasSubstr("80.3%"));
  EXPECT_THAT(unused[0].next_step(), HasSubstr("expandable_segments"));
  const auto unknown = with_peak(std::nullopt);
  ASSERT_THAT(ids(unknown), ElementsAre("fragmentation"));
  EXPECT_EQ(unknown[0].severity, FindingSeverity::kInfo);
}

TEST(Detection, finds_a_jump_of_memory_with_the_loss) {
  const auto with_loss = [](double loss) {
    return run(30, [=](MemorySample& sample, DeviceMemory& gpu, std::uint64_t i) {
      sample.loss = i == 20 ? loss : 0.5;
      if (i != 20) return;
      grow(gpu, "activation", 3000 * kMb);
      gpu.peak_bytes = *gpu.peak_bytes + 3000 * kMb;
    });
  };
  EXPECT_THAT(with_loss(0.6).alerts, IsEmpty());
  for (const double loss : {5.0, std::nan("")}) {
    const Watched result = with_loss(loss);
    ASSERT_THAT(ids(result.alerts), ElementsAre("memory_jump_with_loss"));
    EXPECT_EQ(result.alerts[0].iteration, 200);
    EXPECT_THAT(result.alerts[0].evidence,
                Contains("Since the previous sample, category activation grew most, by 2.9 GiB"));
    EXPECT_THAT(ids(result.detector.findings()), ElementsAre("memory_jump_with_loss"));
  }
}

TEST(Detection, advises_what_to_shrink_on_a_nearly_full_device) {
  const Watched result = run(3, [](MemorySample& sample, DeviceMemory& gpu, std::uint64_t) {
    gpu.used_bytes = 15'000 * kMb;
    sample.host.used_bytes = 31'900 * kMb;
  });
  const auto findings = result.detector.findings();
  ASSERT_THAT(ids(findings), ElementsAre("device_nearly_full", "device_nearly_full"));
  EXPECT_EQ(findings[0].device, "host");
  EXPECT_EQ(findings[0].severity, FindingSeverity::kCritical);
  EXPECT_EQ(findings[1].saving_bytes(), 512 * kMb);
  EXPECT_EQ(steps_text(findings[1]),
            "Use mixed precision for these activations. Saves up to 512.0 MiB. | In training, "
            "checkpoint unet.down.0 (torch.utils.checkpoint). | Halve the batch. Saves up to 2.0 "
            "GiB.");
}

// The alerts for samples of a GPU with 16,000 MB, of which `used_mb` are in use.
Watched run_at(const std::vector<std::uint64_t>& used_mb, std::vector<MemoryThreshold> thresholds) {
  DetectionOptions options;
  options.alert_above = std::move(thresholds);
  const Change change = [&](MemorySample& sample, DeviceMemory& gpu, std::uint64_t i) {
    gpu.used_bytes = used_mb[i] * kMb;
    gpu.total_bytes = 16'000 * kMb;
    sample.host.rss_bytes = 100 * kMb;
  };
  return run(used_mb.size(), change, options);
}

TEST(Thresholds, alert_when_crossed_and_again_only_after_falling_clearly_below) {
  // 90 % is 14,400 MB; the alert is rearmed below 85.5 %, 13,680 MB.
  const Watched result = run_at(
      {14'000, 14'400, 14'500, 15'000, 14'300, 14'500, 13'700, 14'500, 13'600, 14'500, 14'600},
      {{.percent = 90}});
  EXPECT_THAT(ids(result.alerts), ElementsAre("above_threshold", "above_threshold"));
  EXPECT_THAT(result.reported_at, ElementsAre(2, 9));
  const MemoryAlert& alert = result.alerts[0];
  EXPECT_EQ(alert.title, "cuda:0 is 90.6% full at iteration 20, above 90%");
  EXPECT_EQ(alert.device, "cuda:0");
  EXPECT_EQ(alert.subject, "90%");
  EXPECT_EQ(alert.evidence[0], "14.2 GiB of 15.6 GiB are in use, by all processes");
  EXPECT_THAT(alert.evidence, Contains(HasSubstr("category is activation")));
  EXPECT_THAT(alert.next_step(), HasSubstr("Use mixed precision"));
}

TEST(Thresholds, alert_separately_and_are_critical_if_nearly_full) {
  const Watched result =
      run_at({1000, 13'000, 15'900}, {{.percent = 50}, {.bytes = 15'000 * kMb}, {.percent = 95}});
  EXPECT_THAT(result.reported_at, ElementsAre(1, 2));
  ASSERT_THAT(result.alerts, SizeIs(3));
  EXPECT_EQ(result.alerts[0].subject, "50%");
  EXPECT_EQ(result.alerts[1].severity, FindingSeverity::kCritical);
  EXPECT_EQ(result.alerts[1].subject, "95%");
  EXPECT_EQ(result.alerts[2].title, "cuda:0 uses 15.5 GiB at iteration 20, above 14.6 GiB");
}

TEST(Thresholds, a_percentage_replaces_the_rule_for_nearly_full) {
  EXPECT_THAT(ids(run_at({15'000}, {}).alerts), ElementsAre("device_nearly_full"));
  EXPECT_THAT(ids(run_at({15'000}, {{.percent = 98}}).alerts), IsEmpty());
  EXPECT_THAT(ids(run_at({15'000}, {{.bytes = 20'000 * kMb}}).alerts),
              ElementsAre("device_nearly_full"));
}

TEST(Thresholds, bytes_of_the_host_are_this_processs_and_peaks_count) {
  DetectionOptions options;
  options.alert_above = {{.bytes = 1000 * kMb}};
  const Change change = [](MemorySample& sample, DeviceMemory&, std::uint64_t i) {
    sample.devices.resize(1);  // the CPU
    sample.devices[0].peak_bytes = (i == 1 ? 1200 : 300) * kMb;
    sample.host.rss_bytes = (i == 3 ? 1100 : 500) * kMb;
    sample.host.used_bytes = 20'000 * kMb;
  };
  const Watched result = run(4, change, options);
  EXPECT_THAT(result.reported_at, ElementsAre(1, 3));
  EXPECT_EQ(result.alerts[0].title, "This process uses 1.2 GiB at iteration 10, above 1000.0 MiB");
  EXPECT_EQ(result.alerts[0].evidence[0],
            "The tensors' peak since the previous sample; now 500.0 MiB are live");
  EXPECT_EQ(result.alerts[0].device, "host");
}

TEST(Thresholds, without_figures_there_is_no_alert) {
  DetectionOptions options;
  options.alert_above = {{.percent = 1}, {.bytes = 1}};
  MemorySample sample;
  EXPECT_THAT(Detector(options).observe(sample), IsEmpty());
  sample.devices.emplace_back().name = "cuda:0";
  sample.devices.back().live_bytes = 2;
  EXPECT_THAT(ids(Detector(options).observe_thresholds(sample)), ElementsAre("above_threshold"));
}

std::vector<std::string> titles_of_failure(const MemorySample& sample) {
  std::vector<std::string> titles;
  for (const MemoryAlert& alert : Detector().observe(sample)) titles.push_back(alert.title);
  return titles;
}

MemorySample failure_with_an_idle_gpu() {
  MemorySample sample = tests::synthetic_sample();
  sample.ran_out = true;
  DeviceMemory idle = sample.devices[1];
  idle.name = "cuda:1";
  idle.used_bytes = 500 * kMb;
  sample.devices.push_back(idle);
  return sample;
}

TEST(Detection, blames_the_device_that_the_error_names) {
  MemorySample sample = failure_with_an_idle_gpu();
  for (const char* device : {"cuda:0", "cuda:1", "cpu", "cuda:7"}) {
    sample.ran_out_of = device;
    EXPECT_THAT(titles_of_failure(sample),
                ElementsAre("Memory of " + std::string(device) + " ran out in iteration 100"));
  }
}

TEST(Detection, blames_the_fullest_device_if_none_is_named) {
  EXPECT_THAT(titles_of_failure(failure_with_an_idle_gpu()),
              ElementsAre("Memory ran out, most likely that of cuda:0, in iteration 100"));
}

TEST(Detection, reads_the_device_that_ran_out_from_an_error) {
  const auto devices = failure_with_an_idle_gpu().devices;
  const auto of = [&](std::string_view error) { return device_that_ran_out(error, devices); };
  EXPECT_EQ(of("OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a "
               "total capacity of 79.11 GiB of which 3.06 GiB is free."),
            "cuda:1");
  EXPECT_EQ(of("CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity)"),
            "cuda:0");
  EXPECT_EQ(of("RuntimeError: [enforce fail at alloc_cpu.cpp:116] . DefaultCPUAllocator: can't "
               "allocate memory: you tried to allocate 1152921504606846976 bytes."),
            "cpu");
  EXPECT_EQ(of("MemoryError: "), "cpu");
  EXPECT_EQ(of("RuntimeError: CUDA error: out of memory"), "");
  EXPECT_EQ(of("CUDA out of memory. GPU 7 has a total capacity of"), "");
  EXPECT_EQ(of(""), "");
}

TEST(Detection, prints_alerts_like_findings) {
  const MemoryAlert alert{
      {"x", FindingSeverity::kWarning, "It is so", {"A", "B"}, {{"Do it.", 1 << 20}, {"Do that."}}},
      "cpu",
      "",
      1};
  EXPECT_EQ(alert_text(alert),
            "WARNING It is so\n  - A\n  - B\n  \xE2\x86\x92 Do it. Saves 1.0 MiB.\n"
            "    or: Do that.\n");
}

}  // namespace
}  // namespace plimsoll::alerts
