// A snapshot attached to a recording gives the same lifetimes and segments as the snapshot alone.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/progress.h"
#include "engine/load.h"
#include "format/encoder.h"
#include "tests/support/samples.h"
#include "tests/support/trace_file.h"

namespace plimsoll::tests {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

model::Trace loaded(std::span<const std::byte> bytes) {
  base::Progress progress;
  auto loaded = engine::load(bytes, "test", progress);
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
  return loaded.ok() ? std::move(loaded.value().trace) : model::Trace{};
}

std::vector<std::byte> recording_with(std::span<const std::byte> snapshot) {
  TraceFile file;
  format::Encoder encoder(file);
  encoder.define_site(1, {});
  encoder.alloc({1'000, 1, 1, 0, 64, 100, false});
  encoder.mark({2'000, 1, 0, 1});  // a step
  encoder.attachment("torch_snapshot", snapshot);
  encoder.finish(3'000);
  return file.bytes();
}

void expect_same(const model::Trace& alone, const model::DeviceTrace& a, const model::Trace& joined,
                 const model::DeviceTrace& b) {
  ASSERT_EQ(a.lifetimes.size(), b.lifetimes.size());
  EXPECT_EQ(b.lifetimes.baseline_count, 0u);
  EXPECT_EQ(a.history == model::History::kTruncated, b.history == model::History::kTruncated);
  std::size_t different = 0;
  for (std::size_t row = 0; row < a.lifetimes.size(); ++row) {
    const bool is_same = alone.address(a, row) == joined.address(b, row) &&
                         alone.size_bytes(a, row) == joined.size_bytes(b, row) &&
                         alone.block_bytes(a, row) == joined.block_bytes(b, row);
    different += is_same ? 0 : 1;
  }
  EXPECT_EQ(different, 0u);
  ASSERT_EQ(a.segment_count, b.segment_count);
  for (std::uint32_t i = 0; i < a.segment_count; ++i) {
    const model::Segment& x = alone.segments[a.first_segment + i];
    const model::Segment& y = joined.segments[b.first_segment + i];
    EXPECT_EQ(x.address, y.address);
    EXPECT_EQ(x.allocated_size, y.allocated_size);
    EXPECT_EQ(x.block_count, y.block_count);
  }
}

TEST(AttachedSnapshot, has_the_same_trace_as_the_snapshot_alone) {
  PLIMSOLL_NEEDS_SAMPLES();
  std::size_t count = 0;
  for (const auto& file : fs::directory_iterator(samples_folder() / "snapshots")) {
    SCOPED_TRACE(file.path().filename());
    const std::vector<std::byte> bytes = bytes_of(file.path());
    const model::Trace alone = loaded(bytes);
    const model::Trace joined = loaded(recording_with(bytes));
    ASSERT_EQ(joined.format, "plimsoll");
    for (const model::DeviceTrace& device : alone.devices) {
      if (device.events.size() == 0 && device.segment_count == 0) continue;
      SCOPED_TRACE(to_string(device.device));
      const auto same =
          std::ranges::find(joined.devices, device.device, &model::DeviceTrace::device);
      ASSERT_NE(same, joined.devices.end());
      expect_same(alone, device, joined, *same);
      ++count;
    }
  }
  EXPECT_GT(count, 0u);
}

}  // namespace
}  // namespace plimsoll::tests
