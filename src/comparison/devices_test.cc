#include "comparison/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll::comparison {
namespace {

report::Digest digest_on(const std::vector<std::string>& devices) {
  report::Digest digest;
  for (const std::string& device : devices) {
    digest.points.push_back({.device = device, .name = "peak"});
    digest.keys.emplace_back().device = device;
  }
  return digest;
}

std::vector<std::string> paired(const std::vector<std::string>& before,
                                const std::vector<std::string>& after) {
  report::Digest digest = digest_on(before);
  pair_devices(digest, digest_on(after));
  std::vector<std::string> devices;
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(digest.points[i].device, digest.keys[i].device);
    devices.push_back(digest.keys[i].device);
  }
  return devices;
}

using testing::ElementsAre;

TEST(PairDevices, a_cpu_and_a_gpu_are_compared_if_each_side_trains_on_one) {
  EXPECT_THAT(paired({"cpu"}, {"cuda:0"}), ElementsAre("cuda:0"));
  EXPECT_THAT(paired({"cpu"}, {"cpu", "cuda:0"}), ElementsAre("cuda:0"));
  EXPECT_THAT(paired({"cuda:1"}, {"cuda:0"}), ElementsAre("cuda:0"));
  EXPECT_THAT(paired({"cpu", "cuda:0"}, {"cpu"}), ElementsAre("cpu, its host", "cpu"));
  report::Digest cpu = digest_on({"cpu"});
  EXPECT_EQ(pair_devices(cpu, digest_on({"cuda:0"})),
            "The devices differ: cpu before, cuda:0 after. Each trains on one, so they are "
            "compared with each other.");
}

TEST(PairDevices, others_keep_their_names) {
  EXPECT_THAT(paired({"cpu"}, {"cpu"}), ElementsAre("cpu"));
  EXPECT_THAT(paired({"cpu", "cuda:0"}, {"cpu", "cuda:0"}), ElementsAre("cpu", "cuda:0"));
  EXPECT_THAT(paired({"cpu"}, {"cuda:0", "cuda:1"}), ElementsAre("cpu"));
  EXPECT_THAT(paired({"cuda:0", "cuda:1"}, {"cuda:2"}), ElementsAre("cuda:0", "cuda:1"));
}

}  // namespace
}  // namespace plimsoll::comparison
