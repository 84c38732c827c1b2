// Compares pages for fake machines with tests/golden/top. PLIMSOLL_BLESS=1 regenerates the pages;
// review the difference before committing it.
#include "top/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "text/layout.h"
#include "top/text.h"

namespace plimsoll::top {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kMib = 1 << 20;
constexpr std::uint64_t kGib = 1 << 30;

void expect_golden(const std::string& name, const std::vector<std::string>& lines) {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/golden/top/" + name + ".txt";
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  if (std::getenv("PLIMSOLL_BLESS") != nullptr) std::ofstream(path, std::ios::binary) << text;
  std::ifstream file(path, std::ios::binary);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << path;
}

// `steps` is the number of steps that the program makes in two seconds; 0: unknown.
Trend growing(std::uint64_t from, std::uint64_t growth, std::int64_t steps = 0) {
  Trend trend;
  for (std::uint64_t i = 0; i <= 30; ++i) {
    const auto number = static_cast<std::int64_t>(i);
    trend.add(number * 2 * kSecond, from + i * growth, (number + 1) * steps);
  }
  return trend;
}

TopProcess process(int pid, const std::string& command, std::uint64_t rss) {
  TopProcess made;
  made.memory.pid = pid;
  made.memory.rss_bytes = rss;
  made.memory.peak_rss_bytes = rss + 10 * kMib;
  made.memory.file_bytes = 40 * kMib;
  made.memory.shared_memory_bytes = 2 * kMib;
  made.memory.swap_bytes = 0;
  made.command = command;
  return made;
}

TopView host() {
  TopView view;
  view.clock = "16:41:05";
  view.gpu_is_known = true;
  view.why_no_gpu = "there is no NVIDIA driver on this machine (libnvidia-ml.so.1 is not found)";
  view.machine.total_bytes = 64 * kGib;
  view.machine.available_bytes = 40 * kGib;
  view.machine.swap_total_bytes = 8 * kGib;
  view.machine.swap_free_bytes = 7 * kGib;
  view.machine.shared_memory = probes::SharedMemoryFolder{32 * kGib, 3 * kGib};
  view.machine.pressure = probes::MemoryPressure{};
  view.host_trend = growing(20 * kGib, 100 * kMib);
  view.processes = {
      process(4711, "/opt/venv/bin/python train.py --data /data/sets/a --epochs 3", 3 * kGib),
      process(12, "", 100 * kMib), process(99, "bash -l", 200 * kMib)};
  view.processes[0].child_count = 4;
  view.processes[1].memory.name = "kernel\x1b[31m";
  return view;
}

TopGpu gpu(const std::string& index, const std::string& name, std::uint64_t used) {
  TopGpu made;
  made.device.index = index;
  made.device.name = name;
  made.device.total_bytes = 80 * kGib;
  made.device.used_bytes = used;
  made.device.reserved_bytes = 551 * kMib;
  made.device.busy_percent = 97;
  made.device.reports_processes = true;
  made.trend = growing(used - 300 * kMib, 10 * kMib);
  return made;
}

TopRun run() {
  TopRun made;
  made.pid = 4711;
  made.command = "python train.py --epochs 3";
  made.sample = MemorySample{};
  made.sample->iteration = 1200;
  made.sample->loss = 0.0145531;
  made.age_ns = kSecond / 2;
  TopRunDevice device;
  device.memory.name = "cpu";
  device.memory.live_bytes = 1000 * kMib;
  device.memory.live_count = 345;
  device.memory.categories = {{"activation", 600 * kMib, 200}, {"parameter", 400 * kMib, 145}};
  device.memory.layers = {
      {"unet.encoder.0", 500 * kMib, 1},
      {"", 300 * kMib, 9},
      {"unet.a_very_long_name_of_a_layer.that.goes.on.and.on.until.it.does.not.fit", 200 * kMib,
       5}};
  device.memory.growing = {{"activation", kMib / 2, 40}};
  device.memory.at_peak = {
      {"activation", 2600 * kMib, 0}, {"parameter", 400 * kMib, 0}, {"temporary", 72 * kMib, 0}};
  device.peak_bytes = 3 * kGib;
  device.trend = growing(400 * kMib, 20 * kMib, 40);
  made.devices = {device};
  device.memory.name = "cuda:0";
  device.memory.reserved_bytes = 2000 * kMib;
  device.memory.allocated_bytes = 1000 * kMib;
  device.memory.layers.clear();
  device.memory.bar = DeviceBar{.used_bytes = 4000 * kMib, .total_bytes = 80 * kGib};
  device.memory.bar->parts = {
      {.kind = "tensors", .size_bytes = 1000 * kMib},
      {.kind = "cached", .size_bytes = 1000 * kMib},
      {.kind = "context", .size_bytes = 500 * kMib},
      {.kind = "outside", .size_bytes = 900 * kMib, .name = "NCCL"},
      {.kind = "process", .size_bytes = 40 * kMib, .pid = 77, .count = 1, .name = "ser\x1b[31mve"},
      {.kind = "driver", .size_bytes = 551 * kMib},
      {.kind = "unexplained", .size_bytes = 9 * kMib}};
  made.devices.push_back(device);
  device.memory = DeviceMemory{};  // the driver's figures are unknown
  device.memory.name = "cuda:1";
  device.memory.allocated_bytes = 500 * kMib;
  device.memory.reserved_bytes = 501 * kMib;
  made.devices.push_back(device);
  probes::ProcessFamily family;
  family.parent.rss_bytes = 3 * kGib;
  family.children.resize(4);
  for (std::size_t i = 0; i < 3; ++i) {
    family.children[i].kind = probes::ChildKind::kDataLoaderWorker;
  }
  family.rss_sum_bytes = 9 * kGib;
  family.pss_sum_bytes = 4 * kGib;
  made.family = family;
  made.sample->host.workers_bytes = 600 * kMib;
  return made;
}

TopView gpus() {
  TopView view = host();
  view.why_no_gpu.clear();
  view.gpus = {gpu("0", "NVIDIA H100 80GB HBM3", 76 * kGib),
               gpu("1", "NVIDIA H100 80GB HBM3", kGib)};
  view.gpus[0].processes = {{99, "other", std::nullopt, std::nullopt},
                            {4711, "python train.py --epochs 3", std::nullopt, 60 * kGib},
                            {77, "python serve.py", 10 * kGib, std::nullopt}};
  view.gpus[1].device.reports_processes = false;
  view.gpus[1].device.busy_percent.reset();
  view.runs = {run()};
  return view;
}

TEST(TopFrame, a_machine_without_a_gpu) { expect_golden("host", top_lines(host(), {})); }

TEST(TopFrame, a_sentence_that_does_not_fit_is_wrapped) {
  TopSettings settings;
  settings.width = 80;
  const std::vector<std::string> lines = top_lines(host(), settings);
  EXPECT_THAT(lines, testing::Contains("  found)."));
}

TEST(TopFrame, gpus_processes_and_a_run) { expect_golden("gpus", top_lines(gpus(), {})); }

TEST(TopFrame, colors_and_a_wider_page) {
  TopSettings settings;
  settings.color = text::Color::kOn;
  settings.width = 140;
  expect_golden("colours", top_lines(gpus(), settings));
}

TEST(TopFrame, one_gpu_by_name) {
  TopSettings settings;
  settings.device = "0";
  settings.sort = TopSort::kName;
  settings.interval_s = 0.5;
  expect_golden("one_gpu", top_lines(gpus(), settings));
}

TEST(TopFrame, a_container_with_a_limit_and_a_silent_run) {
  TopView view = host();
  view.cgroup = probes::CgroupMemory{};
  view.cgroup->path = "/job";
  view.cgroup->limit_bytes = 4 * kGib;
  view.cgroup->current_bytes = 4 * kGib;
  view.cgroup->inactive_file_bytes = 300 * kMib;
  view.cgroup->oom_kills = 2;
  view.cgroup->pressure = probes::MemoryPressure{.some_percent_10s = 12.34};
  view.processes[0].memory.pss_bytes = 2 * kGib;
  view.processes[2].kind = "DataLoader worker";
  view.processes[2].command = "/opt/venv/bin/python train.py";
  view.runs = {run()};
  view.runs[0].sample.reset();
  view.runs[0].devices.clear();
  view.runs[0].age_ns = 7 * kSecond;
  TopSettings settings;
  settings.device = "cpu";
  settings.pid = 4711;
  expect_golden("container", top_lines(view, settings));
}

TEST(TopFrame, a_driver_that_does_not_answer) {
  TopView view = gpus();
  view.gpu_age_ns = 15 * kSecond;
  view.runs.clear();
  view.gpus[0].device.total_bytes.reset();
  expect_golden("silent_driver", top_lines(view, {}));
  view.gpu_is_known = false;
  view.gpus.clear();
  EXPECT_EQ(top_lines(view, {})[2], "The NVIDIA driver has not answered for 15 s.");
}

TEST(TopFrame, no_line_is_wider_than_the_page) {
  for (const std::size_t width : {1U, 20U, 60U, 200U}) {
    TopSettings settings;
    settings.width = width;
    for (const std::string& line : top_lines(gpus(), settings)) {
      EXPECT_LE(text::display_width(line), width) << line;
    }
  }
}

TEST(TopFrame, an_empty_view_is_a_page_too) {
  EXPECT_THAT(top_lines(TopView{}, {}), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(top_one_liners(TopView{}), testing::IsEmpty());
}

TEST(TopFrame, a_truncated_line_ends_its_color) {
  EXPECT_EQ(cut_columns("\x1b[1mabc\x1b[0mdef", 2), "\x1b[1mab\x1b[0m");
  EXPECT_EQ(cut_columns("\x1b[1mab\x1b[0mcd", 3), "\x1b[1mab\x1b[0mc");
  EXPECT_EQ(cut_columns("日本語", 5), "日本");
  EXPECT_EQ(cut_columns("▁▂▃", 2), "▁▂");
  EXPECT_EQ(cut_columns("\x1b[unending", 9), "");
}

TEST(TopFrame, one_line_reports_a_gpu) {
  TopView view = gpus();
  view.gpus.resize(1);
  view.gpus[0].device.used_bytes = static_cast<std::uint64_t>(15.6 * kGib);
  view.gpus[0].device.total_bytes = 16 * kGib;
  EXPECT_THAT(top_one_liners(view), ElementsAre("GPU Memory: 15.6 GB / 16.0 GB (97%)"));
}

TEST(TopFrame, one_line_reports_several_gpus_by_index) {
  EXPECT_THAT(top_one_liners(gpus()), ElementsAre("GPU 0 Memory: 76.0 GB / 80.0 GB (95%)",
                                                  "GPU 1 Memory: 1.0 GB / 80.0 GB (1%)"));
}

TEST(TopFrame, one_line_reports_the_host_or_its_limit_without_a_gpu) {
  TopView view = host();
  EXPECT_THAT(top_one_liners(view), ElementsAre("Host Memory: 24.0 GB / 64.0 GB (37%)"));
  view.cgroup = probes::CgroupMemory{};
  view.cgroup->limit_bytes = 4 * kGib;
  view.cgroup->current_bytes = 3 * kGib;
  EXPECT_THAT(top_one_liners(view), ElementsAre("Host Memory: 3.0 GB / 4.0 GB (75%)"));
}

}  // namespace
}  // namespace plimsoll::top
