// The monitors over a recorder that receives allocations from the tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <new>
#include <optional>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "plimsoll/monitor.h"
#include "plimsoll/recorder_c.h"
#include "tests/support/synthetic_sample.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using tests::kMb;

const plimsoll_recorder_api& api() { return *plimsoll_recorder(); }
plimsoll_context* here() { return api().context(); }
void alloc(std::uint64_t address, std::uint64_t mb) { api().alloc(here(), 0, address, mb * kMb); }
void free_at(std::uint64_t address) { api().free(here(), 0, address); }
std::uint32_t name(const std::string& text) { return api().name(text.data(), text.size()); }

// The printed lines, with the system's figures for this process masked.
class Lines {
 public:
  LinePrinter printer() {
    return [this](const std::string& line) { lines.push_back(masked(line)); };
  }
  static std::string masked(const std::string& line) {
    return std::regex_replace(line, std::regex(R"((CPU:? )[+-]?[0-9.]+ MB( \([+-][0-9.]+ MB\))?)"),
                              "$1# MB");
  }
  std::vector<std::string> lines;
};

class Monitors : public testing::Test {
 protected:
  Monitors() { EXPECT_TRUE(start_watching().ok()); }
  ~Monitors() override {
    set_device_source({});
    stop_watching();
  }
  Lines said;
};

TEST_F(Monitors, a_block_reports_its_change_and_its_exact_peak) {
  {
    const TrackMemory block("loading dataset", said.printer());
    alloc(64, 300);
    free_at(64);
    alloc(128, 40);
  }
  free_at(128);
  EXPECT_THAT(said.lines, ElementsAre("[Memory] loading dataset: CPU # MB, CPU tensors +40.0 MB",
                                      "         Peak CPU tensors: 300.0 MB"));
}

TEST_F(Monitors, a_block_returns_what_it_printed) {
  TrackMemory block("loading dataset", said.printer());
  alloc(64, 300);
  free_at(64);
  alloc(128, 40);
  const BlockMemory memory = block.finish();
  EXPECT_EQ(memory.peak_bytes(), std::uint64_t{300} << 20);
  EXPECT_EQ(memory.peaks.at("cpu"), std::uint64_t{300} << 20);
  EXPECT_EQ(*memory.after.cpu.allocated_bytes - *memory.before.cpu.allocated_bytes,
            std::uint64_t{40} << 20);
  free_at(128);
  EXPECT_EQ(block.finish().peak_bytes(), std::uint64_t{300} << 20);
}

TEST_F(Monitors, nested_blocks_have_separate_peaks) {
  {
    TrackMemory outer("outer", said.printer());
    alloc(64, 100);
    {
      const TrackMemory inner("inner", said.printer());
      alloc(128, 20);
      free_at(128);
    }
    free_at(64);
    alloc(64, 50);
    outer.finish();
    outer.finish();
  }
  free_at(64);
  EXPECT_THAT(said.lines, ElementsAre("[Memory] inner: CPU # MB, CPU tensors +0.0 MB",
                                      "         Peak CPU tensors: 120.0 MB",
                                      "[Memory] outer: CPU # MB, CPU tensors +50.0 MB",
                                      "         Peak CPU tensors: 120.0 MB"));
}

TEST_F(Monitors, a_tracker_shows_what_changed_between_its_checkpoints) {
  MemoryTracker tracker(said.printer());
  tracker.print_summary();
  tracker.record("start");
  alloc(64, 7);
  tracker.record("model");
  tracker.print_summary();
  free_at(64);
  EXPECT_THAT(said.lines, ElementsAre("[Memory] summary: nothing recorded", "[Memory] summary",
                                      "  start: CPU # MB, CPU tensors 0.0 MB",
                                      "  model: CPU # MB, CPU tensors 7.0 MB (+7.0 MB)"));
}

TEST_F(Monitors, an_epoch_has_lines_for_its_first_batches_and_its_peak) {
  EpochMemoryMonitor monitor(Monitoring::kOn, 2, said.printer());
  int reads = 0;
  const Loss loss = [&]() -> std::optional<double> {
    ++reads;
    return 0.014553;
  };
  monitor.on_epoch_start();
  for (int batch = 0; batch < 4; ++batch) {
    alloc(64, 90);
    free_at(64);
    alloc(128 + static_cast<std::uint64_t>(batch), 1);
    monitor.on_batch_end(batch, loss);
  }
  monitor.on_epoch_end();
  EXPECT_EQ(reads, 2);  // a loss that is not printed is not read
  EXPECT_THAT(said.lines, ElementsAre("Memory monitoring enabled (verbose for first 2 batches)",
                                      "  Batch 0: CPU tensors 1.0 MB, CPU # MB, loss=0.014553",
                                      "  Batch 1: CPU tensors 2.0 MB, CPU # MB, loss=0.014553",
                                      "  Epoch end: CPU tensors 4.0 MB allocated, peak 93.0 MB"));
  for (int batch = 0; batch < 4; ++batch) free_at(128 + static_cast<std::uint64_t>(batch));
}

TEST_F(Monitors, announce_the_start_of_an_epoch_monitor) {
  for (const std::int64_t batches : {5, 1, 0}) {
    const EpochMemoryMonitor on(Monitoring::kOn, batches, said.printer());
    const EpochMemoryMonitor off(Monitoring::kOff, batches, said.printer());
  }
  EXPECT_THAT(said.lines, ElementsAre("Memory monitoring enabled (verbose for first 5 batches)",
                                      "Memory monitoring enabled (verbose for first 1 batch)",
                                      "Memory monitoring enabled"));
}

TEST_F(Monitors, an_optimization_counts_its_loss_evaluations) {
  OptimizationMemoryMonitor monitor(Monitoring::kOn, 1, said.printer());
  monitor.on_start();
  monitor.on_loss_evaluation(known_loss(0.5));
  alloc(64, 30);
  free_at(64);
  monitor.on_loss_evaluation();
  monitor.on_end();
  EXPECT_THAT(said.lines, ElementsAre("  Loss evaluation 0: CPU: # MB | CPU tensors: 0.0 MB",
                                      "    Iteration 1: loss=0.500000",
                                      "After optimization: CPU: # MB | CPU tensors: 0.0 MB",
                                      "  Peak CPU tensors during optimization: 30.0 MB"));
  EXPECT_EQ(monitor.evaluations(), 2);
}

TEST_F(Monitors, a_batch_profiler_reports_what_each_part_added) {
  BatchMemoryProfiler profiler(Monitoring::kOn, said.printer());
  profiler.checkpoint("data_to_gpu");
  alloc(64, 27);
  profiler.checkpoint("forward");
  free_at(64);
  profiler.checkpoint("backward");
  profiler.print_summary();
  profiler.reset();
  profiler.print_summary();
  profiler.disable();
  profiler.print_summary();
  EXPECT_THAT(said.lines, ElementsAre("    Memory profile:",
                                      "      data_to_gpu → forward: CPU tensors 27.0 MB (+27.0 MB)",
                                      "      forward → backward: CPU tensors 0.0 MB (-27.0 MB)",
                                      "    Memory profile: fewer than two checkpoints"));
}

TEST_F(Monitors, disabled_monitors_print_and_query_nothing) {
  set_device_source([]() -> std::vector<DeviceMemory> {
    ADD_FAILURE() << "asked";
    return {};
  });
  EpochMemoryMonitor epoch(Monitoring::kOff, 5, said.printer());
  epoch.on_epoch_start();
  epoch.on_batch_end(0, []() -> std::optional<double> {
    ADD_FAILURE() << "read";
    return {};
  });
  epoch.on_epoch_end();
  OptimizationMemoryMonitor optimization(Monitoring::kOff, 5, said.printer());
  optimization.on_start();
  optimization.on_loss_evaluation();
  optimization.on_end();
  BatchMemoryProfiler batch(Monitoring::kOff, said.printer());
  batch.checkpoint("a");
  batch.print_summary();
  EXPECT_THAT(said.lines, IsEmpty());
}

DeviceMemory gpu(std::uint64_t allocated_mb, std::uint64_t reserved_mb, std::uint64_t peak_mb) {
  DeviceMemory device;
  device.name = "cuda:0";
  device.allocated_bytes = allocated_mb * kMb;
  device.reserved_bytes = reserved_mb * kMb;
  device.peak_bytes = peak_mb * kMb;
  return device;
}

TEST_F(Monitors, report_the_gpu_if_there_is_one) {
  DeviceMemory now = gpu(23, 3242, 100);
  set_device_source([&] { return std::vector{now}; });
  EpochMemoryMonitor monitor(Monitoring::kOn, 5, said.printer());
  monitor.on_epoch_start();
  now = gpu(24, 3242, 2880);
  monitor.on_batch_end(0, known_loss(0.25));
  monitor.on_epoch_end();
  {
    const TrackMemory block("loading dataset", said.printer());
    now = gpu(1274, 3242, 2880);
  }
  EXPECT_THAT(said.lines,
              ElementsAre("Memory monitoring enabled (verbose for first 5 batches)",
                          "  Batch 0: GPU 24.0 MB, CPU # MB, loss=0.250000",
                          "  Epoch end: GPU 24.0 MB allocated, 3242.0 MB reserved, peak 2880.0 MB",
                          "[Memory] loading dataset: CPU # MB, GPU +1250.0 MB",
                          "         Peak GPU: at most 2880.0 MB"));
  EXPECT_EQ(MemoryMonitor::get_gpu_memory_mb(), 1274.0);
}

TEST_F(Monitors, print_allocated_and_reserved_memory_of_the_gpu) {
  DeviceMemory now = gpu(23, 3242, 24);
  set_device_source([&] { return std::vector{now}; });
  MemoryMonitor::print_memory_usage("After model creation: ", said.printer());
  MemoryMonitor::print_memory_usage("After model creation:", said.printer());
  MemoryMonitor::print_memory_usage("", said.printer());
  OptimizationMemoryMonitor optimization(Monitoring::kOn, 1, said.printer());
  optimization.on_start();
  now = gpu(23, 3242, 2880);
  optimization.on_loss_evaluation(known_loss(0.14532));
  optimization.on_loss_evaluation(known_loss(0.1));
  optimization.on_end();
  const std::string usage = "CPU: # MB | GPU Allocated: 23.0 MB | GPU Reserved: 3242.0 MB";
  EXPECT_THAT(said.lines,
              ElementsAre("After model creation: " + usage, "After model creation: " + usage, usage,
                          "  Loss evaluation 0: " + usage, "    Iteration 1: loss=0.145320",
                          "After optimization: " + usage,
                          "  Peak GPU memory during optimization: 2880.0 MB"));
  said.lines.clear();
  set_device_source({});
  MemoryMonitor::print_memory_usage("", said.printer());
  EXPECT_THAT(said.lines, ElementsAre("CPU: # MB | CPU tensors: 0.0 MB"));
}

TEST_F(Monitors, count_from_zero_on_a_gpu_that_was_not_in_use_before) {
  alloc(64, 500);  // in host memory, so not the GPU's earlier figure
  MemoryTracker tracker(said.printer());
  BatchMemoryProfiler profiler(Monitoring::kOn, said.printer());
  tracker.record("a");
  profiler.checkpoint("a");
  set_device_source([] { return std::vector{gpu(30, 40, 30)}; });
  tracker.record("b");
  profiler.checkpoint("b");
  profiler.print_summary();
  tracker.print_summary();
  free_at(64);
  EXPECT_THAT(said.lines, ElementsAre("    Memory profile:", "      a → b: GPU 30.0 MB (+30.0 MB)",
                                      "[Memory] summary", "  a: CPU # MB, CPU tensors 500.0 MB",
                                      "  b: CPU # MB, GPU 30.0 MB (+30.0 MB)"));
}

TEST_F(Monitors, a_sample_sums_to_live_bytes_by_category_dtype_and_layer) {
  const std::uint32_t weight = api().tensor(PLIMSOLL_ROLE_PARAMETER, name("fc.weight"),
                                            name("float32"), name("[256, 1024]"));
  api().adopt(here(), 0, 64, 1 * kMb, weight);
  api().adopt(here(), 0, 128, 2 * kMb, 0);
  here()->phase = PLIMSOLL_PHASE_FORWARD;
  here()->layer = name("Net.fc");
  alloc(192, 200);
  here()->phase = PLIMSOLL_PHASE_BACKWARD;
  alloc(256, 150);
  here()->layer = 0;
  alloc(384, 3);
  api().tag(here(), 0, 384, api().tensor(PLIMSOLL_ROLE_WORKSPACE, name("cuBLAS"), 0, 0));
  here()->phase = PLIMSOLL_PHASE_OTHER;
  alloc(320, 5);
  const PeakSpan span;
  free_at(320);

  const MemorySample sample = take_sample({.iteration = 7, .loss = 0.5, .peak_since = &span});
  ASSERT_EQ(sample.devices.size(), 1u);
  const DeviceMemory& cpu = sample.devices[0];
  EXPECT_EQ(cpu.name, "cpu");
  EXPECT_EQ(cpu.live_bytes, 356 * kMb);
  EXPECT_EQ(cpu.live_count, 5u);
  EXPECT_EQ(cpu.peak_bytes, 361 * kMb);
  for (const auto& shares : {cpu.categories, cpu.dtypes, cpu.layers}) {
    std::uint64_t bytes = 0, count = 0;
    for (const MemoryShare& share : shares) bytes += share.size_bytes, count += share.count;
    EXPECT_EQ(bytes, cpu.live_bytes);
    EXPECT_EQ(count, cpu.live_count);
  }
  std::map<std::string, std::uint64_t> mb;
  for (const MemoryShare& share : cpu.categories) mb[share.name] = share.size_bytes / kMb;
  EXPECT_EQ(mb, (std::map<std::string, std::uint64_t>{{"activation", 200},
                                                      {"activation_gradient", 150},
                                                      {"parameter", 1},
                                                      {"unknown", 2},
                                                      {"workspace", 3}}));
  EXPECT_EQ(cpu.layers[0].name, "Net.fc");
  EXPECT_EQ(cpu.large_count, 2u);
  EXPECT_EQ(cpu.large_bytes, 350 * kMb);
  ASSERT_EQ(cpu.large_tensors.size(), 2u);
  EXPECT_EQ(cpu.large_tensors[0].category, "activation");
  EXPECT_EQ(take_sample({.large_tensor_bytes = 150 * kMb}).devices[0].large_count, 1u);
  const MemorySample all = take_sample({.large_tensor_bytes = 1});
  EXPECT_EQ(all.devices[0].large_tensors.back().shape, "[256, 1024]");
  EXPECT_EQ(all.devices[0].large_tensors.back().name, "fc.weight");
  EXPECT_EQ(all.devices[0].large_tensors.back().layer, "fc");
  EXPECT_TRUE(all.host.cpu_percent.has_value());  // since the previous sample
  EXPECT_EQ(cpu.large_tensors[0].layer, "Net.fc");
  EXPECT_EQ(sample.iteration, 7);
  EXPECT_EQ(sample.loss, 0.5);
  for (const std::uint64_t address : {64U, 128U, 192U, 256U, 384U}) free_at(address);
}

TEST_F(Monitors, memory_owned_by_a_module_counts_as_its_own) {
  const auto emit = [](std::uint64_t address, std::uint64_t mb, plimsoll_role role,
                       const char* tensor) {
    const auto kind = static_cast<std::uint8_t>(role);
    api().adopt(here(), 0, address, mb * kMb, api().tensor(kind, name(tensor), 0, 0));
  };
  emit(64, 1, PLIMSOLL_ROLE_PARAMETER, "Net.fc.weight");
  emit(128, 2, PLIMSOLL_ROLE_GRADIENT, "Net.fc.weight");
  emit(192, 4, PLIMSOLL_ROLE_OPTIMIZER_STATE, "Net.fc.weight.exp_avg");
  emit(256, 8, PLIMSOLL_ROLE_BUFFER, "Net.bn.running_mean");
  here()->layer = name("Net.fc");
  alloc(320, 16);
  here()->layer = 0;
  std::map<std::string, std::uint64_t> mb;
  const MemorySample sample = take_sample();
  for (const MemoryShare& share : sample.devices.at(0).layers)
    mb[share.name] = share.size_bytes / kMb;
  EXPECT_EQ(mb, (std::map<std::string, std::uint64_t>{{"Net.bn", 8}, {"Net.fc", 1 + 2 + 4 + 16}}));
  for (const std::uint64_t address : {64U, 128U, 192U, 256U, 320U}) free_at(address);
}

TEST(MonitorsUnwatched, report_the_process_without_tensors) {
  Lines said;
  ASSERT_FALSE(is_watching());
  {
    const TrackMemory block("b", said.printer());
    alloc(64, 10);
    free_at(64);
  }
  EXPECT_THAT(said.lines, ElementsAre("[Memory] b: CPU # MB, CPU tensors unknown",
                                      "         Peak CPU tensors: unknown"));
  EXPECT_THAT(take_sample().devices, IsEmpty());
}

TEST_F(Monitors, can_be_used_by_many_threads_while_others_allocate) {
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (std::uint64_t round = 0; round < 200; ++round) {
        const PeakSpan span;
        alloc((i + 1) << 20, 1);
        EXPECT_GE(*span.usage().cpu.peak_bytes, kMb);
        free_at((i + 1) << 20);
        if (round % 50 == 0) take_sample();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(current_usage().cpu.allocated_bytes, 0u);
}

// The recorder missed the free of a block, as when its ring is full.
TEST_F(Monitors, use_the_allocators_own_figures_and_the_recorders_peaks) {
  const std::uint8_t cuda = api().device(PLIMSOLL_DEVICE_CUDA, 0);
  const PeakSpan span;
  api().segment(here(), cuda, PLIMSOLL_SEGMENT_ALLOC, 4096, 100 * kMb, 0, 0);
  api().alloc(here(), cuda, 4096, 30 * kMb);
  const auto expect_figures = [&](std::uint64_t allocated_mb, std::uint64_t reserved_mb) {
    const MemorySample sample = take_sample({.peak_since = &span});
    const MemoryUsage usage = span.usage();
    ASSERT_EQ(sample.devices.size(), 2u);
    EXPECT_EQ(sample.devices[1].allocated_bytes, allocated_mb * kMb);
    EXPECT_EQ(sample.devices[1].reserved_bytes, reserved_mb * kMb);
    EXPECT_EQ(sample.devices[1].peak_bytes, 30 * kMb);
    EXPECT_EQ(usage.gpu->allocated_bytes, allocated_mb * kMb);
    EXPECT_EQ(usage.gpu->reserved_bytes, reserved_mb * kMb);
    EXPECT_EQ(usage.gpu->peak_bytes, 30 * kMb);
    EXPECT_EQ(usage.gpu->peak_reserved_bytes, 100 * kMb);
  };
  expect_figures(30, 100);
  set_device_source([] { return std::vector{gpu(10, 80, 60)}; });
  expect_figures(10, 80);
}

TEST_F(Monitors, without_memory_a_line_is_missing_and_the_program_continues) {
  const LinePrinter no_memory = [](const std::string& line) {
    if (!line.starts_with("Memory monitoring enabled")) throw std::bad_alloc();
  };
  MemoryMonitor::print_memory_usage("", no_memory);
  MemoryTracker tracker(no_memory);
  tracker.print_summary();
  TrackMemory block("block", no_memory);
  EXPECT_NE(block.finish().after.rss_bytes, std::nullopt);
  EpochMemoryMonitor epochs(Monitoring::kOn, 5, no_memory);
  epochs.on_epoch_start();
  epochs.on_batch_end(0);
  epochs.on_epoch_end();
  OptimizationMemoryMonitor optimization(Monitoring::kOn, 5, no_memory);
  optimization.on_start();
  optimization.on_loss_evaluation();
  optimization.on_end();
  BatchMemoryProfiler batches(Monitoring::kOn, no_memory);
  batches.print_summary();
  const auto source_without_memory = []() -> std::vector<DeviceMemory> { throw std::bad_alloc(); };
  set_device_source(source_without_memory);
  tracker.record("none");
  EXPECT_THAT(tracker.checkpoints(), IsEmpty());
  batches.checkpoint("none");
  epochs.on_epoch_start();
  TrackMemory unmeasured("block", said.printer());
  EXPECT_EQ(unmeasured.finish().peak_bytes(), std::nullopt);
  EXPECT_THAT(said.lines, IsEmpty());
}

}  // namespace
}  // namespace plimsoll
