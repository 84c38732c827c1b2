#include "top/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "live/live_status.h"
#include "tests/support/fake_machine.h"
#include "tests/support/threads.h"
#include "tests/support/wait_until.h"

namespace plimsoll::top {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// A fake machine with a fake driver, and one run, which is this process.
class TopProbeTest : public testing::Test {
 protected:
  TopProbeTest() {
    ::setenv("FAKE_NVML", (machine_.root() + "/script").c_str(), 1);
    machine_.write("/proc/meminfo", "MemTotal: 8000 kB\nMemAvailable: 5000 kB\n");
  }
  // The probe's thread for the driver may outlive the probe, and reads the environment.
  ~TopProbeTest() override {
    EXPECT_TRUE(tests::wait_until([] { return !tests::has_thread("plimsoll-nvml"); }));
    ::unsetenv("FAKE_NVML");
  }

  // Copies the real files of /proc that show when this process began.
  TopSources sources() const {
    TopSources sources;
    sources.root = machine_.root();
    sources.nvml = std::string(FAKE_NVML_FOLDER) + "/now/libnvidia-ml.so.1";
    sources.live_folders = {machine_.root() + "/live"};
    sources.interval_ns = 10'000'000;
    return sources;
  }

  static MemorySample sample() {
    static std::atomic<std::int64_t> now_ns = 1'700'000'000'000'000'000;
    MemorySample made;
    made.time_ns = ++now_ns;  // each sample is newer
    made.iteration = 7;
    made.devices.resize(2);
    made.devices[0].name = "cpu";
    made.devices[0].live_bytes = 100;
    made.devices[1].name = "cuda:1";
    made.devices[1].live_bytes = 200;
    made.devices[1].peak_bytes = 900;
    made.devices[1].reserved_bytes = 400;
    made.devices[1].uuid = "GPU-a";
    return made;
  }
  auto publisher() const {
    live::LiveStatusOptions options;
    options.folders = {machine_.root() + "/live"};
    options.watcher_check_interval_ns = options.show_every_ns = 1'000'000;
    auto started = live::LiveStatusPublisher::start(sample, options);
    EXPECT_TRUE(started.ok());
    return std::move(started).value();
  }

  tests::FakeMachine machine_;
};

TEST_F(TopProbeTest, the_host_and_its_largest_processes_are_reported) {
  for (int pid = 1; pid <= 30; ++pid) {
    machine_.add_process(pid, pid == 1 ? 0 : 1, "p" + std::to_string(pid), "", pid);
  }
  machine_.write("/script", "");
  TopProbe probe(sources());
  probe.wait_for_answers(tests::kLongestWaitNs);
  const TopView view = probe.sample();
  EXPECT_EQ(view.why_no_gpu, "the NVIDIA driver finds no GPU");
  EXPECT_EQ(view.machine.available_bytes, 5000U << 10);
  ASSERT_EQ(view.processes.size(), 10U);
  EXPECT_EQ(view.processes[0].memory.pid, 30);
  EXPECT_EQ(view.processes[9].memory.pid, 21);
  EXPECT_THAT(view.runs, IsEmpty());
}

TEST_F(TopProbeTest, one_process_is_reported_with_its_children_and_shared_memory) {
  machine_.add_process(1, 0, "init", "init", 9999);
  machine_.add_process(10, 1, "python", "python train.py", 500);
  machine_.add_process(11, 10, "pt_data_worker", "python train.py", 400);
  machine_.add_pss(10, 300);
  machine_.add_pss(11, 200);
  TopSources chosen = sources();
  chosen.pid = 10;
  chosen.pss_every_ns = INT64_MAX;
  TopProbe probe(chosen);
  for (int round = 0; round < 2; ++round) {  // the second keeps the PSS of the first
    const TopView view = probe.sample();
    ASSERT_EQ(view.processes.size(), 2U);
    EXPECT_EQ(view.processes[0].memory.pss_bytes, 300U << 10);
    EXPECT_EQ(view.processes[0].child_count, 1U);
    EXPECT_EQ(view.processes[0].kind, "");
    EXPECT_EQ(view.processes[1].kind, "DataLoader worker");
    EXPECT_EQ(view.processes[0].command, "python train.py");
    EXPECT_EQ(view.processes[1].command, "python train.py");
    machine_.add_pss(10, 999);
  }
}

TEST_F(TopProbeTest, a_run_is_queried_and_its_gpu_is_found_by_uuid) {
  const std::string pid = std::to_string(::getpid());
  machine_.add_process(::getpid(), 1, "python", "python train.py", 500);
  machine_.write("/script", "device T4|GPU-a|16000|1000|0|5\nprocess " + pid +
                                " compute na\nprocess 77 compute 500\n"
                                "device T4|GPU-b|16000|1|0|0\ndevice T4|GPU-c|16000|1|0|0\n");
  const auto shown = publisher();
  TopProbe probe(sources());
  TopView view;
  while (view.runs.empty() || !view.runs[0].sample || view.gpus.empty()) {
    probe.wait_for_answers(tests::kLongestWaitNs);
    view = probe.sample();
  }
  EXPECT_EQ(view.runs[0].command, "python train.py");
  EXPECT_EQ(view.runs[0].sample->iteration, 7);
  ASSERT_EQ(view.runs[0].devices.size(), 2U);
  EXPECT_EQ(view.runs[0].devices[1].peak_bytes, 900U);
  ASSERT_EQ(view.gpus[0].processes.size(), 2U);
  const auto& ours = view.gpus[0].processes[view.gpus[0].processes[0].pid == 77 ? 1 : 0];
  EXPECT_EQ(ours.used_bytes, std::nullopt);
  EXPECT_EQ(ours.recorded_bytes, 400U);
  EXPECT_EQ(ours.command, "python train.py");
  EXPECT_THAT(view.gpus[1].processes, IsEmpty());
}

TEST_F(TopProbeTest, a_run_that_has_ended_disappears) {
  auto shown = publisher();
  TopProbe probe(sources());
  EXPECT_TRUE(tests::wait_until([&] { return !probe.sample().runs.empty(); }));
  shown.reset();
  EXPECT_THAT(probe.sample().runs, IsEmpty());
}

TEST_F(TopProbeTest, older_figures_are_not_shown_as_new) {
  MemorySample old = sample();
  const auto show = [&](std::uint64_t number) {
    const auto bytes = live::encode_sample(old);
    live::LiveStatusHeader header;
    header.pid = ::getpid();
    header.start_ticks = probes::read_start_ticks(::getpid()).value_or(0);
    header.pid_namespace = probes::own_pid_namespace();
    header.sample_number = number;
    header.sample_bytes = bytes.size();
    header.sample_checksum = live::sample_checksum(number, bytes);
    machine_.write("/live/" + std::to_string(::getpid()),
                   std::string(reinterpret_cast<const char*>(&header), sizeof(header)) +
                       std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  };
  show(1);
  TopProbe probe(sources());
  EXPECT_FALSE(probe.sample().runs.at(0).sample);
  old.time_ns += 1;
  show(2);
  EXPECT_TRUE(probe.sample().runs.at(0).sample);
}

}  // namespace
}  // namespace plimsoll::top
