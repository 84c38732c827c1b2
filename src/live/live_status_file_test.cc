#include "live/live_status_file.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <random>

#include "tests/support/synthetic_sample.h"

namespace plimsoll::live {
namespace {

DeviceMemory device(std::size_t layers) {
  DeviceMemory made;
  made.name = "cuda:0";
  made.categories = {{"parameter", 600, 3}, {"activation", 400, 9}};
  for (std::size_t i = 0; i < layers; ++i) {
    made.layers.push_back({"model.layer" + std::to_string(i), 1000 - i, i});
    made.live_bytes += 1000 - i;
  }
  made.large_tensors = {{"weight", "parameter", "float32", "64x3", "conv1", 77}};
  made.large_count = 1;
  made.peak_bytes = 12345;
  made.reserved_bytes = 0;
  return made;
}

MemorySample sample(std::size_t layers) {
  MemorySample made;
  made.time_ns = 123;
  made.iteration = -7;
  made.loss = 0.25;
  made.host.rss_bytes = 5;
  made.host.cpu_percent = 99.5;
  made.devices = {device(layers), device(0)};
  return made;
}

std::uint64_t sum(const std::vector<MemoryShare>& shares) {
  return std::accumulate(
      shares.begin(), shares.end(), std::uint64_t{0},
      [](std::uint64_t bytes, const MemoryShare& share) { return bytes + share.size_bytes; });
}

TEST(LiveStatusFile, a_sample_round_trips) {
  const auto back = decode_sample(encode_sample(sample(3)));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->time_ns, 123);
  EXPECT_EQ(back->iteration, -7);
  EXPECT_EQ(back->loss, 0.25);
  EXPECT_EQ(back->host.rss_bytes, 5U);
  EXPECT_EQ(back->host.cpu_percent, 99.5);
  EXPECT_EQ(back->host.total_bytes, std::nullopt);
  ASSERT_EQ(back->devices.size(), 2U);
  const DeviceMemory& first = back->devices[0];
  EXPECT_EQ(first.name, "cuda:0");
  EXPECT_EQ(first.categories[1].name, "activation");
  EXPECT_EQ(first.categories[1].count, 9U);
  EXPECT_EQ(first.layers.size(), 3U);
  EXPECT_EQ(first.large_tensors[0].layer, "conv1");
  EXPECT_EQ(first.large_tensors[0].size_bytes, 77U);
  EXPECT_EQ(first.peak_bytes, 12345U);
  EXPECT_EQ(first.reserved_bytes, 0U);
  EXPECT_EQ(first.used_bytes, std::nullopt);
}

TEST(LiveStatusFile, a_failed_iteration_round_trips_with_its_peak) {
  MemorySample failed = sample(3);
  failed.batch_size = 32;
  failed.ran_out = true;
  failed.ran_out_of = "cuda:0";
  failed.failed_batch_size = 48;
  failed.devices[0].at_peak = {{"parameter", 40, 0}, {"(rest)", 900, 0}};
  const auto back = decode_sample(encode_sample(failed));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->batch_size, 32);
  EXPECT_TRUE(back->ran_out);
  EXPECT_EQ(back->ran_out_of, "cuda:0");
  EXPECT_EQ(back->failed_batch_size, 48);
  ASSERT_EQ(back->devices[0].at_peak.size(), 2U);
  EXPECT_EQ(back->devices[0].at_peak[1].size_bytes, 900U);
}

TEST(LiveStatusFile, the_users_of_the_device_round_trip) {
  MemorySample reported = sample(3);
  reported.devices[0].uuid = "MIG-1";
  reported.devices[0].bar = tests::made_bar();
  const auto back = decode_sample(encode_sample(reported));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->devices[0].uuid, "MIG-1");
  EXPECT_FALSE(back->devices[1].bar);
  const DeviceBar& bar = back->devices[0].bar.value();
  EXPECT_EQ(bar.total_bytes, 16'000 * tests::kMb);
  ASSERT_EQ(bar.parts.size(), 7U);
  EXPECT_EQ(bar.parts[4].name, "serve");
  EXPECT_EQ(bar.parts[4].pid, 77);
  EXPECT_EQ(bar.parts[4].count, 1U);
  EXPECT_EQ(bar.parts[6].kind, "unexplained");
  EXPECT_LT(bar.parts[6].size_bytes, 0);
  reported.devices[0].bar->parts.resize(100);
  EXPECT_FALSE(decode_sample(encode_sample(reported))->devices[0].bar);
}

TEST(LiveStatusFile, the_version_depends_on_the_fields_and_their_order) {
  EXPECT_NE(sample::list_version<MemoryShare>(), sample::list_version<LiveTensor>());
  EXPECT_NE(sample::list_version<MemoryShare>(sample::list_version<LiveTensor>()),
            sample::list_version<LiveTensor>(sample::list_version<MemoryShare>()));
  EXPECT_NE(LiveStatusHeader().version, 2U);  // the version before the list was checked
}

TEST(LiveStatusFile, a_long_list_is_shortened_and_still_sums) {
  const auto back = decode_sample(encode_sample(sample(500)));
  ASSERT_TRUE(back);
  EXPECT_LT(back->devices[0].layers.size(), 50U);
  EXPECT_EQ(back->devices[0].layers.back().name, "(rest)");
  EXPECT_EQ(sum(back->devices[0].layers), back->devices[0].live_bytes);
}

TEST(LiveStatusFile, the_largest_sample_fits) {
  MemorySample large = sample(0);
  DeviceMemory full = device(0);
  const std::string name(1000, 'x');
  full.name = name;
  full.categories.assign(100, {name, 1, 1});
  full.dtypes = full.layers = full.unused = full.categories;
  full.large_tensors.assign(100, {name, name, name, name, name, 1});
  full.uuid = name;
  full.bar.emplace();
  full.bar->parts.assign(16, {.kind = name, .name = name});
  large.devices.assign(99, full);
  const auto bytes = encode_sample(large);
  EXPECT_LE(bytes.size(), kMostSampleBytes);
  EXPECT_GT(bytes.size(), kMostSampleBytes / 2);
  EXPECT_TRUE(decode_sample(bytes));
}

TEST(LiveStatusFile, neither_a_prefix_nor_anything_longer_is_a_sample) {
  auto bytes = encode_sample(sample(3));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_sample(std::span(bytes).first(size))) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_sample(bytes));
}

TEST(LiveStatusFile, no_bytes_break_the_decoder) {
  const auto good = encode_sample(sample(30));
  std::mt19937 random(1);
  std::size_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = good;
    for (int changes = 0; changes < 4; ++changes) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    refused += decode_sample(bytes) ? 0 : 1;
  }
  EXPECT_GT(refused, 1000U);  // at least those that affect a length
}

TEST(LiveStatusFile, the_checksum_covers_every_byte_and_the_number) {
  auto bytes = encode_sample(sample(3));
  const std::uint64_t before = sample_checksum(1, bytes);
  EXPECT_NE(sample_checksum(2, bytes), before);
  for (std::byte& byte : bytes) {
    byte ^= std::byte{1};
    EXPECT_NE(sample_checksum(1, bytes), before);
    byte ^= std::byte{1};
  }
}

}  // namespace
}  // namespace plimsoll::live
