#include "monitor/device_watch.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "plimsoll/monitor.h"
#include "probes/cuda_devices.h"
#include "probes/process_memory.h"
#include "tests/support/fake_machine.h"

namespace plimsoll::monitor {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kA = "aaaaaaaa-0000-1111-2222-333333333333";
constexpr const char* kB = "bbbbbbbb-0000-1111-2222-333333333333";
constexpr const char* kHexA = "aaaaaaaa000011112222333333333333";
constexpr const char* kHexB = "bbbbbbbb000011112222333333333333";

std::vector<plimsoll_usage> g_usage;
int g_asked = 0;

std::vector<plimsoll_usage> made_usage() {
  ++g_asked;
  return g_usage;
}

DeviceBar small_bar() {
  DeviceBar bar{.used_bytes = 1025, .total_bytes = 2000};
  bar.parts = {{.kind = "tensors", .size_bytes = 1024}, {.kind = "unexplained", .size_bytes = 1}};
  return bar;
}

plimsoll_usage cuda(std::int32_t ordinal, std::uint64_t allocated, std::uint64_t reserved) {
  plimsoll_usage usage{};
  usage.live_bytes = allocated;
  usage.reserved_bytes = reserved;
  usage.ordinal = ordinal;
  usage.device_type = PLIMSOLL_DEVICE_CUDA;
  usage.device = static_cast<std::uint8_t>(ordinal + 1);
  usage.has_segments = 1;
  return usage;
}

// Fakes for NVIDIA's management library, CUDA, and the system's files.
class DeviceWatchTest : public testing::Test {
 protected:
  DeviceWatchTest() : cuda_(::dlopen(kCuda, RTLD_NOW | RTLD_LOCAL)) {
    ::setenv("FAKE_NVML", (machine_.root() + "/script").c_str(), 1);
    g_usage.clear();
  }
  ~DeviceWatchTest() override {
    ::unsetenv("FAKE_NVML");
    ::unsetenv("FAKE_CUDA");
    if (cuda_ != nullptr) ::dlclose(cuda_);
  }

  static constexpr const char* kCuda = FAKE_CUDA_FOLDER "/libcuda.so.1";
  void play(const std::string& script) const { machine_.write("/script", script); }
  static void cuda_has(const std::string& uuids) { ::setenv("FAKE_CUDA", uuids.c_str(), 1); }
  DeviceReader reader(bool are_pids_ours = true) const {
    return DeviceReader({.cuda = kCuda,
                         .root = machine_.root(),
                         .usage = made_usage,
                         .are_pids_ours = are_pids_ours});
  }
  static std::vector<DeviceReading> read(DeviceReader& reader) {
    auto nvml = probes::Nvml::load(std::string(FAKE_NVML_FOLDER) + "/now/libnvidia-ml.so.1");
    EXPECT_TRUE(nvml.ok());
    std::vector<DeviceReading> readings;
    reader.read(*nvml, readings);
    return readings;
  }
  // The text of the bar of the only device.
  static std::string bar(DeviceReader& reader) {
    const auto readings = read(reader);
    if (readings.size() != 1) return std::to_string(readings.size()) + " devices";
    const auto bar = base::device_bar(readings[0].figures);
    return bar ? base::parts_text(*bar) : "no bar";
  }
  static std::string device(const char* uuid, int used) {
    return std::string("device H100|GPU-") + uuid + "|1000|" + std::to_string(used) + "|30|0\n";
  }
  static std::string process(int pid, const std::string& used) {
    return "process " + std::to_string(pid) + " compute " + used + "\n";
  }

  tests::FakeMachine machine_;
  const int self_ = ::getpid();
  void* cuda_;
};

TEST_F(DeviceWatchTest, cuda_reports_the_uuids_of_its_devices_once_initialized) {
  EXPECT_THAT(probes::cuda_device_uuids(kCuda), IsEmpty());  // not initialized
  cuda_has(std::string(kHexB) + " " + kHexA);
  EXPECT_THAT(probes::cuda_device_uuids(kCuda), ElementsAre(kB, kA));
  cuda_has(std::string("odd ") + kHexA);
  EXPECT_THAT(probes::cuda_device_uuids(kCuda), ElementsAre("", kA));
  EXPECT_THAT(probes::cuda_device_uuids("libcuda-of-nobody.so"), IsEmpty());
}

TEST_F(DeviceWatchTest, devices_and_instances_are_found_by_uuid) {
  const auto gpu = [](std::string index, std::string uuid) {
    probes::GpuDevice device;
    device.index = std::move(index);
    device.uuid = std::move(uuid);
    return device;
  };
  const std::vector<probes::GpuDevice> devices = {
      gpu("0", "GPU-a"), gpu("1", "GPU-b"),           gpu("1:0", "MIG-c"), gpu("1:1", "MIG-d"),
      gpu("2", "GPU-e"), gpu("2:0", "MIG-GPU-e/1/0"), gpu("10", "GPU-f")};
  const auto index_of = [&](std::string_view uuid) {
    const probes::GpuDevice* found = probes::find_gpu(devices, uuid);
    return found != nullptr ? found->index : "none";
  };
  EXPECT_EQ(index_of("a"), "0");
  EXPECT_EQ(index_of("GPU-a"), "0");
  EXPECT_EQ(index_of("d"), "1:1");
  EXPECT_EQ(index_of("MIG-c"), "1:0");
  EXPECT_EQ(index_of("b"), "none");  // split in two: it is unknown which of the instances this is
  EXPECT_EQ(index_of("e"), "2:0");   // an old CUDA returns the GPU of its only instance
  EXPECT_EQ(index_of("f"), "10");
  EXPECT_EQ(index_of("x"), "none");
  EXPECT_EQ(index_of(""), "none");
}

TEST_F(DeviceWatchTest, the_order_is_that_of_cuda) {
  play(device(kA, 100) + device(kB, 200));
  cuda_has(std::string(kHexB) + " " + kHexA);
  DeviceReader looking = reader();
  const auto readings = read(looking);
  ASSERT_EQ(readings.size(), 2U);
  EXPECT_EQ(readings[0].uuid, std::string("GPU-") + kB);
  EXPECT_EQ(readings[0].figures.free_bytes, 770U);
  EXPECT_EQ(readings[1].ordinal, 1);
  EXPECT_EQ(readings[1].figures.free_bytes, 870U);
}

TEST_F(DeviceWatchTest, memory_that_cuda_takes_at_its_start_is_the_context) {
  DeviceReader looking = reader();
  machine_.write("/proc/77/stat", "77 (serve) S 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5 0 1\n");
  machine_.write("/proc/77/status", "Name:\tserve\n");
  play(device(kA, 110) + process(77, "100"));
  EXPECT_THAT(read(looking), IsEmpty());  // CUDA is not initialized
  cuda_has(kHexA);
  EXPECT_EQ(bar(looking), "process 77 serve 100 B, the driver itself 30 B, unexplained 10 B");
  EXPECT_FALSE(looking.is_urgent());
  g_usage = {cuda(0, 150, 200)};
  EXPECT_TRUE(looking.is_urgent());
  play(device(kA, 360) + process(77, "100") + process(self_, "250"));
  EXPECT_EQ(bar(looking),
            "tensors 150 B, cached 50 B, CUDA context and modules 50 B, process 77 serve 100 B, "
            "the driver itself 30 B, unexplained 10 B");
  EXPECT_FALSE(looking.is_urgent());
  // More memory of this process, which the allocator does not have.
  play(device(kA, 460) + process(77, "100") + process(self_, "350"));
  machine_.write("/proc/self/task/5/comm", "pt_nccl_watchdg\n");
  EXPECT_EQ(bar(looking),
            "tensors 150 B, cached 50 B, CUDA context and modules 50 B, NCCL and others outside "
            "PyTorch's allocator 100 B, process 77 serve 100 B, the driver itself 30 B, "
            "unexplained 10 B");
}

TEST_F(DeviceWatchTest, a_context_from_before_is_not_distinguished) {
  cuda_has(kHexA);
  g_usage = {cuda(0, 150, 200)};
  play(device(kA, 250) + process(self_, "250"));
  DeviceReader looking = reader();
  EXPECT_EQ(bar(looking),
            "tensors 150 B, cached 50 B, outside PyTorch's allocator 50 B, the driver itself 30 B");
}

// As in a container, where the driver reports the host's pids.
TEST_F(DeviceWatchTest, with_foreign_pids_this_process_is_a_sole_entry) {
  cuda_has(kHexA);
  g_usage = {cuda(0, 150, 200)};
  DeviceReader looking = reader(false);
  play(device(kA, 250) + process(4711, "250"));
  EXPECT_EQ(bar(looking),
            "tensors 150 B, cached 50 B, outside PyTorch's allocator 50 B, the driver itself 30 B");
  for (const std::string& script :
       {device(kA, 250) + process(4711, "199"),  // less than this process reserved
        device(kA, 250) + process(4711, "na"), device(kA, 250) + process(4711, "0"),
        device(kA, 250), device(kA, 250) + process(1, "220") + process(2, "30"),
        // A coincidence: this entry is another process.
        device(kA, 250) + process(self_, "10") + process(2, "240"),
        device(kA, 250) + "fail nvmlDeviceGetComputeRunningProcesses_v3 3\n"
                          "fail nvmlDeviceGetGraphicsRunningProcesses_v3 3\n"}) {
    play(script);
    EXPECT_EQ(bar(looking),
              "tensors 150 B, cached 50 B, the driver itself 30 B, outside PyTorch's allocator "
              "(this process or others) 50 B")
        << script;
  }
}

TEST_F(DeviceWatchTest, bytes_of_processes_are_not_guessed_if_the_driver_omits_them) {
  cuda_has(kHexA);
  g_usage = {cuda(0, 150, 200)};
  play(device(kA, 300) + process(self_, "250") + process(9, "na"));
  DeviceReader looking = reader();
  EXPECT_EQ(bar(looking),
            "tensors 150 B, cached 50 B, outside PyTorch's allocator 50 B, the driver itself 30 B, "
            "1 process whose bytes are not reported 50 B");
  play(device(kA, 300) + process(self_, "na") + process(9, "40"));
  EXPECT_EQ(bar(looking),
            "tensors 150 B, cached 50 B, process 9 40 B, the driver itself 30 B, outside PyTorch's "
            "allocator (this process or others) 60 B");
}

// If the allocator reserves memory during a query, the driver is queried again, a few times.
TEST_F(DeviceWatchTest, the_driver_is_queried_again_after_a_change_during_the_query) {
  static int turn = 0;
  cuda_has(kHexA);
  play(device(kA, 300));
  const auto changing = []() -> std::vector<plimsoll_usage> {
    const int now = ++turn;
    return {cuda(0, 10, now < 3 ? static_cast<std::uint64_t>(now) : 100)};
  };
  DeviceReader looking({.cuda = kCuda, .root = machine_.root(), .usage = changing});
  const auto readings = read(looking);
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(readings[0].figures.reserved_bytes, 100U);
  EXPECT_EQ(turn, 4);
}

// The machine that runs this test need not have a driver. Even with one, nothing is known about a
// device that CUDA does not list here.
TEST_F(DeviceWatchTest, a_watch_without_a_driver_knows_nothing) {
  start_device_watch();
  start_device_watch();
  EXPECT_FALSE(current_device_bar(255, 1'000'000));
  stop_device_watch();
  EXPECT_FALSE(current_device_bar(255));
  stop_device_watch();
  stop_device_watch();
  EXPECT_THAT(device_readings(), IsEmpty());
  EXPECT_EQ(device_bar_text(small_bar()), "tensors 1.0 KiB, unexplained 1 B");
}

TEST_F(DeviceWatchTest, nccl_is_recognized_by_its_thread) {
  EXPECT_FALSE(probes::has_nccl(machine_.root()));
  machine_.write("/proc/self/task/7/comm", "python\n");
  EXPECT_FALSE(probes::has_nccl(machine_.root()));
  machine_.write("/proc/self/task/8/comm", "pt_nccl_watchdg\n");
  EXPECT_TRUE(probes::has_nccl(machine_.root()));
}

}  // namespace
}  // namespace plimsoll::monitor
