#include "base/device_bar.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace plimsoll::base {
namespace {

constexpr std::uint64_t kMib = 1 << 20;

std::int64_t sum(const DeviceBar& bar) {
  std::uint64_t bytes = 0;
  for (const DevicePart& part : bar.parts) bytes += static_cast<std::uint64_t>(part.size_bytes);
  return static_cast<std::int64_t>(bytes);
}

// 1000 MiB, of which 300 are free. The driver has 40, this process 500 (400 reserved), and others
// 150.
DeviceFigures everything() {
  return {.total_bytes = 1000 * kMib,
          .free_bytes = 300 * kMib,
          .driver_bytes = 40 * kMib,
          .allocated_bytes = 250 * kMib,
          .reserved_bytes = 400 * kMib,
          .own_bytes = 500 * kMib,
          .context_bytes = 60 * kMib,
          .processes = {{7, "serve", 50 * kMib}, {9, "", 100 * kMib}}};
}

struct Case {
  const char* what;
  void (*change)(DeviceFigures& figures);
  const char* text;
};

TEST(DeviceBar, attributes_all_used_memory) {
  const std::vector<Case> cases = {
      {"all is known", [](DeviceFigures&) {},
       "tensors 250.0 MiB, cached 150.0 MiB, CUDA context and modules 60.0 MiB, outside PyTorch's "
       "allocator 40.0 MiB, process 9 100.0 MiB, process 7 serve 50.0 MiB, the driver itself 40.0 "
       "MiB, unexplained 10.0 MiB"},
      {"no context was measured", [](DeviceFigures& f) { f.context_bytes.reset(); },
       "tensors 250.0 MiB, cached 150.0 MiB, outside PyTorch's allocator 100.0 MiB, process 9 "
       "100.0 MiB, process 7 serve 50.0 MiB, the driver itself 40.0 MiB, unexplained 10.0 MiB"},
      {"the context was measured too large", [](DeviceFigures& f) { f.context_bytes = 101 * kMib; },
       "tensors 250.0 MiB, cached 150.0 MiB, outside PyTorch's allocator 100.0 MiB, process 9 "
       "100.0 MiB, process 7 serve 50.0 MiB, the driver itself 40.0 MiB, unexplained 10.0 MiB"},
      {"NCCL is there", [](DeviceFigures& f) { f.has_nccl = true, f.processes.clear(); },
       "tensors 250.0 MiB, cached 150.0 MiB, CUDA context and modules 60.0 MiB, NCCL and others "
       "outside PyTorch's allocator 40.0 MiB, the driver itself 40.0 MiB, unexplained 160.0 MiB"},
      {"the driver does not say which process is ours",
       [](DeviceFigures& f) { f.own_bytes.reset(), f.processes.clear(); },
       "tensors 250.0 MiB, cached 150.0 MiB, the driver itself 40.0 MiB, outside PyTorch's "
       "allocator (this process or others) 260.0 MiB"},
      {"the bytes of one process are unknown",
       [](DeviceFigures& f) { f.processes[1].used_bytes.reset(); },
       "tensors 250.0 MiB, cached 150.0 MiB, CUDA context and modules 60.0 MiB, outside PyTorch's "
       "allocator 40.0 MiB, process 7 serve 50.0 MiB, the driver itself 40.0 MiB, 1 process whose "
       "bytes are not reported 110.0 MiB"},
      {"it lists no processes",
       [](DeviceFigures& f) { f.processes.clear(), f.reports_processes = false; },
       "tensors 250.0 MiB, cached 150.0 MiB, CUDA context and modules 60.0 MiB, outside PyTorch's "
       "allocator 40.0 MiB, the driver itself 40.0 MiB, processes whose bytes are not reported "
       "160.0 MiB"},
      {"an old driver does not report its own part",
       [](DeviceFigures& f) { f.driver_bytes.reset(); },
       "tensors 250.0 MiB, cached 150.0 MiB, CUDA context and modules 60.0 MiB, outside PyTorch's "
       "allocator 40.0 MiB, process 9 100.0 MiB, process 7 serve 50.0 MiB, unexplained 50.0 MiB"},
      {"nothing is known but what is used",
       [](DeviceFigures& f) { f = {.total_bytes = f.total_bytes, .free_bytes = f.free_bytes}; },
       "outside PyTorch's allocator (this process or others) 700.0 MiB"},
      {"the allocator reports no segments", [](DeviceFigures& f) { f.reserved_bytes.reset(); },
       "tensors 250.0 MiB, CUDA context and modules 60.0 MiB, outside PyTorch's allocator 190.0 "
       "MiB, process 9 100.0 MiB, process 7 serve 50.0 MiB, the driver itself 40.0 MiB, "
       "unexplained 10.0 MiB"},
      {"we are not on the device",
       [](DeviceFigures& f) {
         f.own_bytes = 0, f.reserved_bytes = 0, f.allocated_bytes = 0, f.context_bytes.reset();
       },
       "process 9 100.0 MiB, process 7 serve 50.0 MiB, the driver itself 40.0 MiB, unexplained "
       "510.0 MiB"},
      {"more was reserved since the driver was asked",
       [](DeviceFigures& f) { f.reserved_bytes = 520 * kMib; },
       "tensors 250.0 MiB, cached 270.0 MiB, process 9 100.0 MiB, process 7 serve 50.0 MiB, the "
       "driver itself 40.0 MiB, less 10.0 MiB by which the figures disagree"},
  };
  for (const Case& each : cases) {
    DeviceFigures figures = everything();
    each.change(figures);
    const auto bar = device_bar(figures);
    ASSERT_TRUE(bar) << each.what;
    EXPECT_EQ(bar->used_bytes, 700 * kMib) << each.what;
    EXPECT_EQ(sum(*bar), static_cast<std::int64_t>(bar->used_bytes)) << each.what;
    EXPECT_EQ(parts_text(*bar), each.text) << each.what;
  }
}

TEST(DeviceBar, is_absent_if_the_used_bytes_are_unknown) {
  DeviceFigures figures = everything();
  figures.free_bytes.reset();
  EXPECT_FALSE(device_bar(figures));
  figures.free_bytes = *figures.total_bytes + 1;
  EXPECT_FALSE(device_bar(figures));
}

TEST(DeviceBar, names_the_largest_of_many_processes) {
  DeviceFigures figures = everything();
  figures.processes.clear();
  for (int pid = 1; pid <= 8; ++pid)
    figures.processes.push_back({pid, "", static_cast<std::uint64_t>(pid) * kMib});
  const auto bar = device_bar(figures);
  const DevicePart& rest = bar->parts[bar->parts.size() - 3];
  EXPECT_EQ(rest.count, 3U);
  EXPECT_EQ(rest.size_bytes, static_cast<std::int64_t>(6 * kMib));
  EXPECT_EQ(part_label(rest), "3 more processes");
}

TEST(DeviceBar, non_pytorch_memory_is_used_minus_reserved) {
  EXPECT_EQ(outside_bytes(*device_bar(everything())), static_cast<std::int64_t>(300 * kMib));
  EXPECT_FALSE(outside_bytes(*device_bar({.total_bytes = 2, .free_bytes = 1})));
}

// A file may contain anything.
TEST(DeviceBar, sums_for_any_figures) {
  std::mt19937_64 dice(1);
  const auto any = [&]() -> std::optional<std::uint64_t> {
    switch (dice() % 4) {
      case 0:
        return std::nullopt;
      case 1:
        return dice();
      default:
        return dice() % (1000 * kMib);
    }
  };
  int bars = 0;
  for (int turn = 0; turn < 10'000; ++turn) {
    DeviceFigures figures{.total_bytes = any(),
                          .free_bytes = any(),
                          .driver_bytes = any(),
                          .allocated_bytes = any(),
                          .reserved_bytes = any(),
                          .own_bytes = any(),
                          .context_bytes = any(),
                          .reports_processes = dice() % 2 == 0};
    for (std::uint64_t i = dice() % 9; i > 0; --i) figures.processes.push_back({1, "", any()});
    const auto bar = device_bar(figures);
    if (!bar) continue;
    ++bars;
    ASSERT_EQ(sum(*bar), static_cast<std::int64_t>(bar->used_bytes));
    ASSERT_FALSE(parts_text(*bar).empty() && bar->used_bytes != 0);
  }
  EXPECT_GT(bars, 1000);
}

}  // namespace
}  // namespace plimsoll::base
