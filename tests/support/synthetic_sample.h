// A sample of a simulated run on one GPU, for tests of code that writes or reads samples.
#pragma once

#include <cstdint>

#include "plimsoll/memory_sample.h"

namespace plimsoll::tests {

inline constexpr std::uint64_t kMb = std::uint64_t{1} << 20;

inline DeviceMemory made_cpu() {
  DeviceMemory cpu;
  cpu.name = "cpu";
  cpu.live_bytes = 30 * kMb;
  cpu.live_count = 3;
  cpu.categories = {{"input", 20 * kMb, 2}, {"other", 10 * kMb, 1}};
  cpu.dtypes = {{"float32", 30 * kMb, 3}};
  cpu.layers = {{"", 30 * kMb, 3}};
  return cpu;
}

inline DeviceMemory made_gpu() {
  DeviceMemory gpu;
  gpu.name = "cuda:0";
  gpu.live_bytes = 8000 * kMb;
  gpu.live_count = 400;
  gpu.categories = {{"activation", 4000 * kMb, 100},
                    {"parameter", 2000 * kMb, 120},
                    {"gradient", 1500 * kMb, 120},
                    {"optimizer_state", 500 * kMb, 60}};
  gpu.dtypes = {{"float32", 6000 * kMb, 300}, {"bfloat16", 2000 * kMb, 100}};
  gpu.layers = {{"unet.down.0", 3000 * kMb, 100},
                {"unet.down.1", 2000 * kMb, 100},
                {"unet.up", 1000 * kMb, 100},
                {"", 2000 * kMb, 100}};
  gpu.large_count = 2;
  gpu.large_bytes = 1536 * kMb;
  gpu.large_tensors = {
      {"", "activation", "float32", "[64, 64, 256, 256]", "unet.down.0", 1024 * kMb},
      {"unet.up.weight", "parameter", "float32", "[8192, 16384]", "unet.up", 512 * kMb}};
  gpu.allocated_bytes = 8073 * kMb + 419'431;  // 8073.4
  gpu.reserved_bytes = 10'130 * kMb;
  gpu.peak_bytes = 9000 * kMb;
  gpu.used_bytes = 12'000 * kMb;
  gpu.total_bytes = 16'000 * kMb;
  return gpu;
}

// 12,000 MB are used, of which torch has reserved 10,000.
inline DeviceBar made_bar() {
  const auto part = [](const char* kind, std::int64_t mb) {
    return DevicePart{.kind = kind, .size_bytes = mb * static_cast<std::int64_t>(kMb)};
  };
  DeviceBar bar{.used_bytes = 12'000 * kMb, .total_bytes = 16'000 * kMb};
  bar.parts = {part("tensors", 8000),   part("cached", 2000), part("context", 500),
               part("outside", 600),    part("process", 400), part("driver", 550),
               part("unexplained", -50)};
  bar.parts[4].pid = 77;
  bar.parts[4].count = 1;
  bar.parts[4].name = "serve";
  return bar;
}

inline MemorySample synthetic_sample() {
  MemorySample sample;
  sample.time_ns = 1'795'192'813'125'000'000;  // 2026-11-20T16:40:13.125Z
  sample.iteration = 100;
  sample.loss = 0.014553;
  sample.large_tensor_bytes = 100 * kMb;
  sample.host = {3000 * kMb, 8000 * kMb, 32'000 * kMb, 150.0, 4, 400 * kMb};
  sample.devices = {made_cpu(), made_gpu()};
  return sample;
}

}  // namespace plimsoll::tests
