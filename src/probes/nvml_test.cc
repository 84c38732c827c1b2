#include "probes/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <memory>
#include <new>
#include <string>

#include "probes/nvml_watcher.h"
#include "tests/support/fake_machine.h"
#include "tests/support/threads.h"
#include "tests/support/wait_until.h"

namespace plimsoll::probes {
namespace {

using testing::HasSubstr;
using tests::kLongestWaitNs;
using tests::wait_until;

constexpr std::int64_t kSecondNs = 1'000'000'000;

constexpr const char* kTwoDevices =
    "device Tesla T4|GPU-aaa|16000|15600|300|97\n"
    "process 42 compute 15000\n"
    "process 7 graphics na\n"
    "process 42 graphics 15100\n"
    "device A100|GPU-bbb|80000|1|0|-1\n";

bool has_watcher_thread() { return tests::has_thread("plimsoll-nvml"); }

// The fake libraries that these tests load, one case at a time.
class NvmlTest : public testing::Test {
 protected:
  NvmlTest() { ::setenv("FAKE_NVML", (machine_.root() + "/script").c_str(), 1); }
  // The thread of a watcher may outlive it, and reads the environment.
  ~NvmlTest() override {
    play("");
    EXPECT_TRUE(wait_until([] { return !has_watcher_thread(); }));
    ::unsetenv("FAKE_NVML");
  }

  void play(const std::string& script) const { machine_.write("/script", script); }
  static std::string library(const std::string& kind) {
    return std::string(FAKE_NVML_FOLDER) + "/" + kind + "/libnvidia-ml.so.1";
  }
  std::vector<GpuDevice> read(const std::string& kind = "now") const {
    auto nvml = Nvml::load(library(kind));
    EXPECT_TRUE(nvml.ok()) << nvml.error().message;
    return nvml ? nvml->read() : std::vector<GpuDevice>{};
  }
  std::string why_none(const std::string& kind = "now") const {
    const auto nvml = Nvml::load(library(kind));
    return nvml ? "" : nvml.error().message;
  }

  tests::FakeMachine machine_;
};

TEST_F(NvmlTest, devices_are_reported_with_their_processes_once_each) {
  play(kTwoDevices);
  const auto devices = read();
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].name, "Tesla T4");
  EXPECT_EQ(devices[0].uuid, "GPU-aaa");
  EXPECT_EQ(devices[0].total_bytes, 16000U);
  EXPECT_EQ(devices[0].used_bytes, 15600U);
  EXPECT_EQ(devices[0].reserved_bytes, 300U);
  EXPECT_EQ(devices[0].busy_percent, 97U);
  ASSERT_EQ(devices[0].processes.size(), 2U);
  EXPECT_EQ(devices[0].processes[0].pid, 7);
  EXPECT_EQ(devices[0].processes[0].used_bytes, std::nullopt);
  EXPECT_EQ(devices[0].processes[1].used_bytes, 15100U);
  EXPECT_EQ(devices[1].index, "1");
  EXPECT_EQ(devices[1].busy_percent, std::nullopt);
  EXPECT_TRUE(devices[1].reports_processes);
}

TEST_F(NvmlTest, free_memory_is_the_remainder_for_any_driver) {
  play(kTwoDevices);
  EXPECT_EQ(read()[0].free_bytes, 100U);
  EXPECT_EQ(read("old")[0].free_bytes, 100U);
}

TEST_F(NvmlTest, a_process_with_0_bytes_counts_as_not_reported) {
  play("device T4|GPU-a|16000|1|0|0\nprocess 5 compute 0\n");
  ASSERT_EQ(read()[0].processes.size(), 1U);
  EXPECT_EQ(read()[0].processes[0].used_bytes, std::nullopt);
}

TEST_F(NvmlTest, an_old_driver_counts_its_reserved_memory_as_used) {
  play(kTwoDevices);
  const auto devices = read("old");
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].used_bytes, 15900U);
  EXPECT_EQ(devices[0].reserved_bytes, std::nullopt);
  ASSERT_EQ(devices[0].processes.size(), 2U);
  EXPECT_EQ(devices[0].processes[1].used_bytes, 15100U);
}

TEST_F(NvmlTest, instances_of_a_split_device_follow_it) {
  play(
      "device A100|GPU-a|80000|500|0|-1\n"
      "instance A100 MIG 1g.10gb|MIG-x|10000|200|0|-1\n"
      "process 9 compute 150\n"
      "instance A100 MIG 2g.20gb|MIG-y|20000|300|0|-1\n"
      "device T4|GPU-b|16000|1|0|0\n");
  const auto devices = read();
  ASSERT_EQ(devices.size(), 4U);
  EXPECT_EQ(devices[1].index, "0:0");
  EXPECT_EQ(devices[1].name, "A100 MIG 1g.10gb");
  ASSERT_EQ(devices[1].processes.size(), 1U);
  EXPECT_EQ(devices[1].processes[0].used_bytes, 150U);
  EXPECT_EQ(devices[2].index, "0:1");
  EXPECT_EQ(devices[3].index, "1");
}

TEST_F(NvmlTest, an_unexpected_number_of_processes_is_reported_in_full) {
  std::string script = "device T4|GPU-a|16000|1|0|0\n";
  for (int pid = 1; pid <= 1000; ++pid) {
    script += "process " + std::to_string(pid) + " compute 1\n";
  }
  play(script);
  EXPECT_EQ(read()[0].processes.size(), 1000U);
}

TEST_F(NvmlTest, drivers_with_longer_entries_are_read_with_the_older_call) {
  play(
      "driver 535.43.02\ndevice T4|GPU-a|16000|1|0|0\nprocess 5 compute 10\nprocess 6 compute "
      "20\n");
  const auto devices = read();
  ASSERT_EQ(devices[0].processes.size(), 2U);
  EXPECT_EQ(devices[0].processes[1].used_bytes, 20U);
}

TEST_F(NvmlTest, a_failing_call_loses_only_its_own_figure) {
  for (const std::string function :
       {"nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetMigMode", "nvmlSystemGetDriverVersion"}) {
    play(kTwoDevices + ("fail " + function + " 999\n"));
    const auto devices = read();
    ASSERT_EQ(devices.size(), 2U) << function;
    EXPECT_EQ(devices[0].used_bytes, 15600U) << function;
  }
  play(kTwoDevices + std::string("fail nvmlDeviceGetMemoryInfo_v2 13\n"));
  EXPECT_EQ(read()[0].used_bytes, 15900U);  // the older call is used
  play(kTwoDevices + std::string("fail nvmlDeviceGetMemoryInfo_v2 13\n"
                                 "fail nvmlDeviceGetMemoryInfo 15\n"
                                 "fail nvmlDeviceGetComputeRunningProcesses_v3 4\n"
                                 "fail nvmlDeviceGetGraphicsRunningProcesses_v3 3\n"));
  const auto devices = read();
  EXPECT_EQ(devices[0].used_bytes, std::nullopt);
  EXPECT_FALSE(devices[0].reports_processes);
  play(kTwoDevices + std::string("fail nvmlDeviceGetHandleByIndex 15\n"));
  EXPECT_EQ(read()[1].index, "1");
  EXPECT_EQ(read()[1].name, "");
}

TEST_F(NvmlTest, without_a_gpu_a_sentence_explains_why) {
  EXPECT_THAT(why_none("nowhere"), HasSubstr("there is no NVIDIA driver on this machine"));
  const auto other = Nvml::load("libc.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, HasSubstr("is not NVIDIA's"));
  play("");
  EXPECT_EQ(why_none(), "the NVIDIA driver finds no GPU");
  play(kTwoDevices + std::string("fail nvmlInit 9\n"));
  EXPECT_EQ(why_none(), "the NVIDIA driver is not loaded");
  play(kTwoDevices + std::string("fail nvmlInit 18\n"));
  EXPECT_THAT(why_none(), HasSubstr("different versions"));
  play(kTwoDevices + std::string("fail nvmlInit 999\n"));
  EXPECT_EQ(why_none(), "the NVIDIA driver answers Unknown Error (999)");
  play(kTwoDevices + std::string("fail nvmlDeviceGetCount 1\n"));
  EXPECT_EQ(why_none(), "the NVIDIA driver answers error 1");
}

TEST_F(NvmlTest, the_watcher_reports_the_newest_answer) {
  play(kTwoDevices);
  const NvmlWatcher watcher({.library = library("now"), .read_every_ns = 1'000'000});
  EXPECT_EQ(watcher.first_view(kLongestWaitNs).devices.size(), 2U);
  play("device T4|GPU-a|16000|1|0|0\n");
  EXPECT_TRUE(wait_until([&] { return watcher.view().devices.size() == 1; }));
}

TEST_F(NvmlTest, the_watcher_reports_why_there_is_no_gpu) {
  const NvmlWatcher watcher({.library = library("nowhere"), .read_every_ns = 1'000'000});
  const GpuView view = watcher.first_view(kLongestWaitNs);
  EXPECT_TRUE(view.is_known);
  EXPECT_THAT(view.why_none, HasSubstr("no NVIDIA driver"));
}

TEST_F(NvmlTest, the_watcher_queries_immediately_on_request) {
  play(kTwoDevices);
  const NvmlWatcher watcher({.library = library("now"), .read_every_ns = 3600 * kSecondNs});
  EXPECT_EQ(watcher.first_view(kLongestWaitNs).devices.size(), 2U);
  play("device T4|GPU-a|16000|1|0|0\n");
  EXPECT_TRUE(watcher.read_now(kLongestWaitNs));
  EXPECT_EQ(watcher.view().devices.size(), 1U);
  play("hang nvmlDeviceGetCount\n");
  EXPECT_FALSE(watcher.read_now(20'000'000));
  play("");
  const NvmlWatcher nobody({.library = library("nowhere"), .read_every_ns = kSecondNs});
  EXPECT_FALSE(nobody.read_now(kLongestWaitNs));  // there is no driver to query
}

TEST_F(NvmlTest, the_watcher_queries_early_if_that_is_urgent) {
  play(kTwoDevices);
  const auto is_wanted = std::make_shared<std::atomic<bool>>(false);
  NvmlWatcherOptions options;
  options.library = library("now");
  options.read_every_ns = 3600 * kSecondNs;
  options.is_urgent = [is_wanted] { return is_wanted->exchange(false); };
  const NvmlWatcher watcher(std::move(options));
  EXPECT_EQ(watcher.first_view(kLongestWaitNs).devices.size(), 2U);
  play("device T4|GPU-a|16000|1|0|0\n");
  *is_wanted = true;
  EXPECT_TRUE(wait_until([&] { return watcher.view().devices.size() == 1; }));
}

TEST_F(NvmlTest, a_reading_that_fails_leaves_the_answer_before_it) {
  play(kTwoDevices);
  const auto fails = std::make_shared<std::atomic<bool>>(false);
  const auto failed = std::make_shared<std::atomic<int>>(0);
  NvmlWatcherOptions options;
  options.library = library("now");
  options.read_every_ns = 1'000'000;
  options.read = [=](Nvml& nvml) {
    if (*fails && ++*failed > 0) throw std::bad_alloc();
    return nvml.read();
  };
  const NvmlWatcher watcher(std::move(options));
  EXPECT_EQ(watcher.first_view(kLongestWaitNs).devices.size(), 2U);
  *fails = true;
  EXPECT_TRUE(wait_until([&] { return *failed >= 3; }));
  EXPECT_FALSE(watcher.read_now(INT64_MAX / 2));  // returns immediately: no reading can come
  EXPECT_EQ(watcher.view().devices.size(), 2U);
  play("device T4|GPU-a|16000|1|0|0\n");
  *fails = false;
  EXPECT_TRUE(wait_until([&] { return watcher.view().devices.size() == 1; }));
}

TEST_F(NvmlTest, a_hanging_driver_blocks_no_caller) {
  play(kTwoDevices + std::string("hang nvmlInit\n"));
  constexpr std::int64_t kShortNs = 20'000'000;
  {
    const NvmlWatcher watcher({.library = library("now"), .read_every_ns = 1'000'000});
    EXPECT_FALSE(watcher.first_view(kShortNs).is_known);
    EXPECT_TRUE(wait_until([&] { return watcher.view().age_ns >= kShortNs; }));
    EXPECT_FALSE(watcher.view().is_known);
  }
  EXPECT_TRUE(has_watcher_thread());  // nothing above waited for the driver
}

}  // namespace
}  // namespace plimsoll::probes
